"""The CI jobs that `fleet init` writes: GitHub's own parser takes them, and what they run does what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from fleet.repository.scaffold import write_repository
from fleet.testing import Forge
from fleet.testing.forge import PullRequest, Repository
from fleet.testing.git import git
from fleet.version import __version__
from tests.forge.workflow_parser import problems

PREVIEWS = {forge: f".{forge}/workflows/fleet-preview.yml" for forge in ("github", "gitea")}
CHECKS = {forge: f".{forge}/workflows/fleet.yml" for forge in ("github", "gitea")}
PREVIEW = PREVIEWS["github"]
TRUST = ("SSL_CERT_FILE", "GIT_SSL_CAINFO")  # the forge has a certificate of its lab


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_repository(tmp_path / "shop")
    return tmp_path / "shop"


def workflow(root: Path, name: str) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((root / name).read_text())
    return made


@pytest.mark.parametrize("name", [*PREVIEWS.values(), *CHECKS.values()])
def test_github_takes_the_workflow(root: Path, name: str) -> None:
    assert problems(root / name) == []


def test_githubs_parser_finds_what_is_wrong(root: Path) -> None:
    file = root / PREVIEW
    file.write_text(file.read_text().replace("runs-on:", "run-on:").replace("statuses: write", "statuses: maybe"))
    assert len(problems(file)) >= 2


@pytest.mark.parametrize("forge", PREVIEWS)
def test_the_job_that_evaluates_the_head_has_no_token_that_writes(root: Path, forge: str) -> None:
    made = workflow(root, PREVIEWS[forge])
    assert made["permissions"] == {}, "each job says what it needs"
    preview, comment = made["jobs"]["preview"], made["jobs"]["comment"]
    assert set(preview["permissions"].values()) == {"read"}
    assert [step["run"] for step in preview["steps"] if "fleet comment" in step.get("run", "")] == []
    [checkout] = [step for step in preview["steps"] if str(step.get("uses", "")).startswith("actions/checkout")]
    assert "ref" not in checkout["with"]  # so it is the base
    assert "repository" not in checkout["with"]
    assert "write" in comment["permissions"].values()
    text = (root / CHECKS[forge]).read_text()
    assert "pull_request_target" not in text  # the job that runs the head's tests has no token that writes
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("forge", PREVIEWS)
def test_the_job_with_the_token_checks_nothing_out_and_evaluates_nothing(root: Path, forge: str) -> None:
    jobs = workflow(root, PREVIEWS[forge])["jobs"]
    steps = jobs["comment"]["steps"]
    actions = [step["uses"].partition("@")[0] for step in steps if "uses" in step]
    assert actions == ["actions/setup-python", "actions/download-artifact"]
    [posting] = [step["run"] for step in steps if "pip" not in step.get("run", "pip")]
    assert posting == 'fleet comment preview/preview.json --html-url "$PAGE"'
    for step in (*jobs["preview"]["steps"], *steps):
        assert "${{" not in step.get("run", "")  # nothing of the event becomes a word of the shell's


def test_the_workflows_of_github_and_gitea_differ_where_the_forges_do(root: Path) -> None:
    assert (root / CHECKS["github"]).read_text() == (root / CHECKS["gitea"]).read_text()
    ours, theirs = (workflow(root, PREVIEWS[forge])["jobs"] for forge in ("github", "gitea"))
    assert ours["comment"].pop("permissions") == {"pull-requests": "write", "statuses": "write"}
    # Gitea has no right of that name: to set a commit status one must be allowed to write code.
    assert theirs["comment"].pop("permissions") == {"pull-requests": "write", "contents": "write"}
    for jobs in (ours, theirs):
        for job in jobs.values():
            job["steps"] = [
                {**step, "uses": re.sub("artifact@.*", "artifact", step.get("uses", ""))}
                for step in job["steps"]
                if step.get("name") not in ("Fetch the head, as objects only", "Preview")
            ]
    assert ours == theirs


def test_no_job_runs_what_somebody_may_exchange(root: Path) -> None:
    """Actions by commit and not by tag, fleet by version, and all that it needs by hash."""
    files = [*PREVIEWS.values(), *CHECKS.values(), ".gitlab/fleet.yml"]
    assert {str(file.relative_to(root)) for file in root.glob(".*/**/*.yml")} == set(files)
    for file in files:
        text = (root / file).read_text()
        for action in re.findall(r"\buses: (\S+)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.findall(r"fleet-gitops==([^'\n]+)", text) == [__version__] * text.count("pip download")
        for install in re.findall(r"pip install .+", text):
            assert "--require-hashes" in install or "--no-deps" in install, install


def shell(directory: Path, script: str, environment: dict[str, str]) -> None:
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "FLEET_CACHE_DIR", *TRUST) if name in os.environ}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=directory,
        env={**kept, "PATH": path, "CI": "true", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def asked(repository: Repository, root: Path) -> PullRequest:
    """The new fleet on the forge, and a pull request of it."""
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "user.name", "Test")
    git(root, "config", "user.email", "test@example.com")
    settings = root / "fleet.toml"
    settings.write_text(settings.read_text().replace('# kind = "gitea"', 'kind = "gitea"'))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "A fleet")
    repository.push(root, "main")
    stack = root / "stacks/hello.py"
    stack.write_text(stack.read_text().replace("members=3 if", "members=5 if"))
    git(root, "commit", "--quiet", "--all", "--message", "Five")
    repository.push(root, "five")
    return repository.pull_request("five")


def scripts(job: dict[str, Any]) -> list[str]:
    """What a job of Actions runs itself, but for the installation of fleet."""
    return [step["run"] for step in job["steps"] if "pip" not in step.get("run", "pip")]


@pytest.fixture
def event(tmp_path: Path) -> Callable[[PullRequest], dict[str, str]]:
    """The variables of a job of Actions for a pull request, with the event as the forge has it."""

    def made(request: PullRequest) -> dict[str, str]:
        file = tmp_path / "event.json"
        file.write_bytes(orjson.dumps({"pull_request": request.state}))
        repository = request.repository
        path = f"{repository.owner}/{repository.name}"
        return {
            "GITHUB_ACTIONS": "true",
            "GITEA_ACTIONS": "true",
            "GITHUB_SERVER_URL": repository.user.url,
            "GITHUB_REPOSITORY": path,
            "GITHUB_EVENT_NAME": "pull_request_target",
            "GITHUB_EVENT_PATH": str(file),
            "RUNNER_TEMP": str(tmp_path),
            "NUMBER": str(request.number),
            "PAGE": f"{repository.user.url}/{path}/actions/runs/1",
            "KUBECONFIG_TEXT": "",
        }

    return made


def ours(request: PullRequest) -> list[dict[str, Any]]:
    return [one for one in request.comments() if one["body"].startswith("<!-- fleet preview ")]


def test_the_two_jobs_of_gitea_comment_and_only_the_second_has_a_token(
    forge: Forge, root: Path, tmp_path: Path, event: Callable[[PullRequest], dict[str, str]]
) -> None:
    repository = forge.repository("shop")
    request = asked(repository, root)
    head = request.state["head"]["sha"]
    base, posting = tmp_path / "base", tmp_path / "posting"
    git(tmp_path, "clone", "--quiet", "--single-branch", "--branch=main", repository.url, str(base))
    git(base, "config", f"http.{forge.url}/.extraheader", f"Authorization: token {forge.user.token}")
    (posting / "preview").mkdir(parents=True)
    jobs = workflow(root, PREVIEWS["gitea"])["jobs"]

    assert len(scripts(jobs["preview"])) == 2
    for script in scripts(jobs["preview"]):
        shell(base, script, event(request))  # without any token
    assert "extraheader" not in git(base, "config", "--list"), "nor is there one in the clone"
    assert request.comments() == []
    assert (base / "preview.html").read_text().startswith("<!doctype html>")

    # The second job has no clone, and of the first one what the artifact holds.
    (posting / "preview/preview.json").write_bytes((base / "preview.json").read_bytes())
    [script] = scripts(jobs["comment"])
    shell(posting, script, {**event(request), "GITHUB_TOKEN": forge.user.token})
    [comment] = ours(request)
    page = event(request)["PAGE"]
    assert f"five ({head[:8]}) merged into main" in comment["body"]
    assert f"(<{page}>)" in comment["body"]
    status = repository.statuses(head)["fleet/preview"]
    assert (status["status"], status["target_url"]) == ("success", page)


def test_the_first_job_of_github_needs_a_token_that_may_read_and_no_more(
    forge: Forge, root: Path, tmp_path: Path, event: Callable[[PullRequest], dict[str, str]]
) -> None:
    repository = forge.repository("shop")
    request = asked(repository, root)
    commented = tmp_path / "commented.json"  # somebody asked for a preview: the event names no commit
    commented.write_bytes(orjson.dumps({"issue": {"number": request.number, "pull_request": {"merged": False}}}))
    reading = {
        **event(request),
        "GITHUB_EVENT_PATH": str(commented),
        "GITHUB_TOKEN": forge.user.new_token("read:repository", "read:issue", "read:user"),
    }
    base, posting = tmp_path / "base", tmp_path / "posting"
    git(tmp_path, "clone", "--quiet", repository.url, str(base))
    jobs = workflow(root, PREVIEWS["github"])["jobs"]
    for script in scripts(jobs["preview"]):
        shell(base, script, reading)
    assert request.comments() == []
    (posting / "preview").mkdir(parents=True)
    (posting / "preview/preview.json").write_bytes((base / "preview.json").read_bytes())
    [script] = scripts(jobs["comment"])
    shell(posting, script, {**reading, "GITHUB_TOKEN": forge.user.token})
    assert len(ours(request)) == 1


def test_the_two_jobs_of_gitlab_comment_and_only_the_second_has_a_token(
    forge: Forge, root: Path, tmp_path: Path
) -> None:
    repository = forge.repository("shop")
    request = asked(repository, root)
    head = request.state["head"]["sha"]
    path = f"{repository.owner}/shop"
    merged = yaml.safe_load((root / ".gitlab-ci.yml").read_text())
    [included] = [root / one["local"] for one in merged["include"]]
    jobs = yaml.safe_load(included.read_text())
    preview, comment = jobs["fleet-preview"], jobs["fleet-comment"]
    # GitLab checks out the head, as a commit; what is run there is the base's all the same.
    there, posting = tmp_path / "gitlab", tmp_path / "posting"
    git(tmp_path, "clone", "--quiet", "--no-checkout", repository.url, str(there))
    git(there, "checkout", "--quiet", "--detach", head)
    environment = {
        "GITLAB_CI": "true",
        "CI_SERVER_URL": forge.url,
        "CI_PROJECT_PATH": path,
        "CI_MERGE_REQUEST_PROJECT_PATH": path,
        "CI_MERGE_REQUEST_IID": str(request.number),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "five",
        "CI_COMMIT_SHA": head,
        "CI_JOB_URL": f"{forge.url}/{path}/-/jobs/1",
        "TARGET": "main",
    }
    assert preview["variables"]["TARGET"] == "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
    assert "environment" not in preview, "so it has no variable of the scope fleet-comment"
    shell(there, "\n".join(preview["script"]), environment)
    assert request.comments() == []

    posting.mkdir()
    for name in preview["artifacts"]["paths"]:
        (posting / name).write_bytes((there / name).read_bytes())
    assert comment["variables"] == {"GIT_STRATEGY": "none"}
    shell(posting, "\n".join(comment["script"]), environment)
    assert request.comments() == [], "without a token nothing is posted, and nothing fails"
    # The forge of this lab is no GitLab: what a clone of the target says of it is asked first.
    git(tmp_path, "clone", "--quiet", repository.url, str(tmp_path / "main"))
    (tmp_path / "main/preview.json").write_bytes((posting / "preview.json").read_bytes())
    shell(tmp_path / "main", "\n".join(comment["script"]), {**environment, "FLEET_FORGE_TOKEN": forge.user.token})
    [made] = ours(request)
    assert "/-/jobs/1/artifacts/file/preview.html" in made["body"]
    assert f"five ({head[:8]}) merged into main" in made["body"]
