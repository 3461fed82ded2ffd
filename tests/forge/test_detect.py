"""Which forge, which repository, which pull request, and which token."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from fleet.errors import AccessError, ConfigurationError
from fleet.forge.detect import detect_job, detect_repository, read_token
from fleet.forge.forge import CiJob, ForgeRepository
from fleet.repository.settings import ForgeSettings, read_settings

SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
ON_GITHUB = ForgeRepository("github", "https://github.com", "team/fleet")


@pytest.mark.parametrize(
    ("remote", "settings", "found"),
    [
        ("https://github.com/team/fleet.git", ForgeSettings(), ON_GITHUB),
        ("https://x-access-token:secret@github.com/team/fleet", ForgeSettings(), ON_GITHUB),
        ("git@github.com:team/fleet.git", ForgeSettings(), ON_GITHUB),
        ("ssh://git@ssh.github.com:443/team/fleet.git", ForgeSettings(), ON_GITHUB),
        (
            "https://gitlab.com/a/b/c/fleet.git",
            ForgeSettings(),
            ForgeRepository("gitlab", "https://gitlab.com", "a/b/c/fleet"),
        ),
        ("https://codeberg.org/a/fleet", ForgeSettings(), ForgeRepository("gitea", "https://codeberg.org", "a/fleet")),
        (
            "http://10.1.2.3:3000/a/fleet.git",
            ForgeSettings("gitea"),
            ForgeRepository("gitea", "http://10.1.2.3:3000", "a/fleet"),
        ),
        (
            "https://example.com/git/a/fleet.git",
            ForgeSettings("gitea", "https://example.com/git"),
            ForgeRepository("gitea", "https://example.com/git", "a/fleet"),
        ),
        (
            "ssh://git@ssh.example.com:2222/a/fleet.git",
            ForgeSettings("gitlab", "https://web.example.com"),
            ForgeRepository("gitlab", "https://web.example.com", "a/fleet"),
        ),
        (
            "/srv/git/fleet.git",
            ForgeSettings("github", "https://git.example.com", "a/fleet"),
            ForgeRepository("github", "https://git.example.com", "a/fleet"),
        ),
        (
            "https://[::1]:3000/a/fleet",
            ForgeSettings("gitea"),
            ForgeRepository("gitea", "https://[::1]:3000", "a/fleet"),
        ),
    ],
)
def test_settings_go_before_the_remote(remote: str, settings: ForgeSettings, found: ForgeRepository) -> None:
    assert detect_repository(remote, settings) == found


@pytest.mark.parametrize(
    ("remote", "settings", "field"),
    [
        ("", ForgeSettings(), "forge.url"),
        ("../fleet.git", ForgeSettings("gitea"), "forge.url"),
        ("file:///srv/fleet.git", ForgeSettings("gitea"), "forge.url"),
        ("https://git.example.com/a/fleet", ForgeSettings(), "forge.kind"),
        ("https://github.com/fleet", ForgeSettings(), "forge.repository"),
    ],
)
def test_what_is_not_known_names_the_setting(remote: str, settings: ForgeSettings, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        detect_repository(remote, settings)
    assert caught.value.field == field
    assert "base branch" in (caught.value.hint or "")


def test_a_job_of_ci_knows_and_settings_go_before_it() -> None:
    running = CiJob(ForgeRepository("gitea", "https://git.example.com", "a/fleet"), 7)
    assert detect_repository("/somewhere", ForgeSettings(), running) == running.repository
    assert (
        detect_repository("/somewhere", ForgeSettings(url="https://other.example.com"), running).url
        == "https://other.example.com"
    )


def test_settings_of_a_forge_are_checked() -> None:
    text = '[forge]\nkind = "gitea"\nurl = "https://example.com/git/"\nrepository = "a/fleet"\n'
    assert read_settings(text).forge == ForgeSettings("gitea", "https://example.com/git", "a/fleet")
    for line in (
        'kind = "bitbucket"',
        'url = "https://user:secret@example.com"',
        'url = "ftp://example.com"',
        'url = "https://example.com/?x=1"',
        'repository = "fleet"',
        'repository = "../../a"',
        'token = "abc"',
    ):
        with pytest.raises(ConfigurationError) as caught:
            read_settings(f"[forge]\n{line}\n")
        assert str(caught.value.source) == "fleet.toml:2"


@pytest.mark.parametrize(
    ("kind", "environment", "found"),
    [
        ("github", {"GITHUB_TOKEN": "a"}, "a"),
        ("github", {"GITHUB_TOKEN": "a", "FLEET_FORGE_TOKEN": "b\n"}, "b"),
        ("gitlab", {"GITLAB_TOKEN": "c", "GITHUB_TOKEN": "a"}, "c"),
        ("gitea", {"GITEA_TOKEN": "d"}, "d"),
        ("gitea", {"GITEA_ACTIONS": "true", "GITHUB_TOKEN": "e"}, "e"),
    ],
)
def test_the_token_comes_from_the_environment(kind: str, environment: dict[str, str], found: str) -> None:
    assert read_token(ForgeRepository(kind, "https://example.com", "a/fleet"), environment) == found


@pytest.mark.parametrize(
    ("kind", "environment"),
    [
        ("github", {}),
        ("github", {"GITLAB_TOKEN": "a", "GITEA_TOKEN": "b", "CI_JOB_TOKEN": "c"}),
        ("github", {"GITEA_ACTIONS": "true", "GITHUB_TOKEN": "that of Gitea".replace(" ", "-")}),
        ("gitlab", {"CI_JOB_TOKEN": "may not comment".replace(" ", "-")}),
        ("gitea", {"GITHUB_TOKEN": "a"}),
    ],
)
def test_a_token_for_one_forge_is_not_sent_to_another(kind: str, environment: dict[str, str]) -> None:
    with pytest.raises(AccessError, match="there is no token for") as caught:
        read_token(ForgeRepository(kind, "https://example.com", "a/fleet"), environment)
    assert "FLEET_FORGE_TOKEN" in (caught.value.hint or "")


def test_what_cannot_be_a_token_is_not_sent_and_not_shown() -> None:
    with pytest.raises(AccessError) as caught:
        read_token(ON_GITHUB, {"GITHUB_TOKEN": "two words"})
    assert "two" not in str(caught.value)


def test_a_job_of_github_for_a_pull_request_and_for_a_comment_on_one(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    environment = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "team/fleet",
        "GITHUB_EVENT_PATH": str(event),
    }
    event.write_bytes(orjson.dumps({"pull_request": {"number": 7, "head": {"sha": SHA}}}))
    assert detect_job(environment) == CiJob(ON_GITHUB, 7, SHA)
    sides = {"head": {"sha": SHA, "ref": "francs"}, "base": {"sha": "1" * 40, "ref": "main"}}
    event.write_bytes(orjson.dumps({"pull_request": {"number": 7, **sides}}))
    assert detect_job(environment) == CiJob(ON_GITHUB, 7, SHA, "francs", "main", "1" * 40)
    event.write_bytes(orjson.dumps({"issue": {"number": 8, "pull_request": {"url": "https://x"}}}))
    assert detect_job(environment) == CiJob(ON_GITHUB, 8)
    event.write_bytes(orjson.dumps({"issue": {"number": 8}}))
    assert detect_job(environment) == CiJob(ON_GITHUB)
    event.write_bytes(orjson.dumps({"ref": "refs/heads/main"}))
    assert detect_job(environment | {"GITEA_ACTIONS": "true"}) == CiJob(
        ForgeRepository("gitea", "https://github.com", "team/fleet")
    )
    for wrong in (b"", b"[]", orjson.dumps({"pull_request": {"number": 7, "head": {"sha": "--exec"}}})):
        event.write_bytes(wrong)
        with pytest.raises(ConfigurationError, match="GITHUB_EVENT_PATH"):
            detect_job(environment)
    event.unlink()
    with pytest.raises(ConfigurationError, match="GITHUB_EVENT_PATH"):
        detect_job(environment)


def test_a_job_of_gitlab_is_about_the_project_that_is_merged_into() -> None:
    environment = {
        "GITLAB_CI": "true",
        "CI_SERVER_URL": "https://gitlab.example.com/forge",
        "CI_PROJECT_PATH": "ann/fleet",
        "CI_COMMIT_SHA": "2" * 40,
    }
    assert detect_job(environment) == CiJob(ForgeRepository("gitlab", "https://gitlab.example.com/forge", "ann/fleet"))
    merging = environment | {"CI_MERGE_REQUEST_IID": "7", "CI_MERGE_REQUEST_PROJECT_PATH": "team/fleet"}
    assert detect_job(merging) == CiJob(
        ForgeRepository("gitlab", "https://gitlab.example.com/forge", "team/fleet"), 7, "2" * 40
    )
    assert detect_job(merging | {"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": SHA}) == CiJob(
        ForgeRepository("gitlab", "https://gitlab.example.com/forge", "team/fleet"), 7, SHA
    )
    sides = {
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "francs",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": "1" * 40,
    }
    found = detect_job(merging | sides)
    assert found is not None
    assert (found.head_ref, found.base_ref, found.base_sha) == ("francs", "main", "1" * 40)


def test_elsewhere_there_is_no_job() -> None:
    assert detect_job({"CI": "true"}) is None
    with pytest.raises(ConfigurationError, match="GITHUB_SERVER_URL is not set"):
        detect_job({"GITHUB_ACTIONS": "true"})
