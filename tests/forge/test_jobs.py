"""The CI jobs that `fleet init` writes: GitHub's own parser takes them, and what they run does what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from fleet.repository.start import start
from fleet.testing import Forge
from fleet.testing.forge import PullRequest, Repository
from fleet.testing.git import git
from fleet.version import __version__
from tests.forge.workflow_parser import problems

PREVIEW = ".github/workflows/fleet-preview.yml"
TRUST = ("SSL_CERT_FILE", "GIT_SSL_CAINFO")  # the forge has a certificate of its lab


@pytest.fixture
def root(tmp_path: Path) -> Path:
    start(tmp_path / "shop")
    return tmp_path / "shop"


def job(root: Path) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((root / PREVIEW).read_text())
    return made


@pytest.mark.parametrize("name", [PREVIEW, ".github/workflows/fleet.yml"])
def test_github_takes_the_workflow(root: Path, name: str) -> None:
    assert problems(root / name) == []


def test_githubs_parser_finds_what_is_wrong(root: Path) -> None:
    file = root / PREVIEW
    file.write_text(file.read_text().replace("runs-on:", "run-on:").replace("statuses: write", "statuses: maybe"))
    assert len(problems(file)) >= 2


def test_the_job_beside_the_token_runs_nothing_of_the_head(root: Path) -> None:
    workflow = job(root)
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write", "statuses": "write"}
    steps = workflow["jobs"]["preview"]["steps"]
    [checkout] = [step for step in steps if str(step.get("uses", "")).startswith("actions/checkout")]
    assert "ref" not in checkout["with"]  # so it is the base
    assert "repository" not in checkout["with"]
    for step in steps:
        assert "${{" not in step.get("run", "")  # nothing of the event becomes a word of the shell's
    text = (root / ".github/workflows/fleet.yml").read_text()
    assert "pull_request_target" not in text  # the job that runs the head's tests has no token that writes
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def test_no_job_runs_what_somebody_may_exchange(root: Path) -> None:
    """Actions by commit and not by tag, fleet by version, and all that it needs by hash."""
    files = [*(root / ".github/workflows").iterdir(), root / ".gitlab/fleet.yml"]
    assert len(files) == 3
    for file in files:
        text = file.read_text()
        for action in re.findall(r"\buses: (\S+)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert f"fleet-gitops=={__version__}\n" in text
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


def test_the_jobs_of_gitea_and_gitlab_comment_on_a_pull_request(forge: Forge, root: Path, tmp_path: Path) -> None:
    repository = forge.repository("shop")
    request = asked(repository, root)
    head = request.state["head"]["sha"]
    event = tmp_path / "event.json"
    event.write_bytes(orjson.dumps({"pull_request": {"number": request.number, "head": {"sha": head}}}))
    path = f"{repository.owner}/shop"
    base = tmp_path / "base"
    git(tmp_path, "clone", "--quiet", "--single-branch", "--branch=main", repository.url, str(base))

    steps = job(root)["jobs"]["preview"]["steps"]
    scripts = [step["run"] for step in steps if step.get("run") and "pip" not in step["run"]]
    assert len(scripts) == 2
    page = f"{forge.url}/{path}/actions/runs/1"
    actions = {
        "GITHUB_ACTIONS": "true",
        "GITEA_ACTIONS": "true",
        "GITHUB_SERVER_URL": forge.url,
        "GITHUB_REPOSITORY": path,
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_TOKEN": forge.user.token,
        "RUNNER_TEMP": str(tmp_path),
        "NUMBER": str(request.number),
        "PAGE": page,
        "KUBECONFIG_TEXT": "",
    }
    for script in scripts:
        shell(base, script, actions)
    assert (base / "preview.html").read_text().startswith("<!doctype html>")
    [comment] = request.comments()
    assert "fleet preview" in comment["body"]
    assert f"(<{page}>)" in comment["body"]
    assert repository.statuses(head)["fleet/preview"]["target_url"] == page

    merged = yaml.safe_load((root / ".gitlab-ci.yml").read_text())
    [included] = [root / one["local"] for one in merged["include"]]
    jobs = yaml.safe_load(included.read_text())
    # GitLab checks out the head, as a commit; what is run there is the base's all the same.
    there = tmp_path / "gitlab"
    git(tmp_path, "clone", "--quiet", "--no-checkout", repository.url, str(there))
    git(there, "checkout", "--quiet", "--detach", head)
    gitlab = {
        "GITLAB_CI": "true",
        "CI_SERVER_URL": forge.url,
        "CI_PROJECT_PATH": path,
        "CI_MERGE_REQUEST_PROJECT_PATH": path,
        "CI_MERGE_REQUEST_IID": str(request.number),
        "CI_COMMIT_SHA": head,
        "CI_JOB_URL": f"{forge.url}/{path}/-/jobs/1",
        "FLEET_FORGE_TOKEN": forge.user.token,
        "TARGET": "main",
    }
    assert jobs["fleet-preview"]["variables"]["TARGET"] == "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
    shell(there, "\n".join(jobs["fleet-preview"]["script"]), gitlab)
    [again] = request.comments()
    assert again["id"] == comment["id"]
    assert "/-/jobs/1/artifacts/file/preview.html" in again["body"]
