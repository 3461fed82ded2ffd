"""Detection of the forge that a repository is on, of its token and of the CI job. Pure: settings, address and
environment are given.

Settings are to be those of the base: an author who could choose the forge's address would be sent the token.

A CI job knows the pull request that it runs for from GitHub's, Gitea's and GitLab's variables. The user who starts a
job sets these; they are as good as an option. Which pull request is meant, and which branches and commits it has, is
all that is taken from them: what it is like (above all whether it comes from a fork) is asked of the forge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fleet.errors import AccessError, ConfigurationError
from fleet.forge.forge import Kind, Repository
from fleet.forge.json import Document, UnreadableError
from fleet.repository.settings import Forge

MOST_BYTES = 25 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CiJob:
    """A CI job of a forge."""

    repository: Repository
    number: int | None = None  # of the pull request; None: the job is not about one
    head: str = ""  # the commit that the job was started for; "": the job is about whatever the head is
    head_ref: str = ""  # the branch that it is on; "" where the job is not told
    base_ref: str = ""  # the branch that it is to be merged into
    base_sha: str = ""  # a commit of that branch


def detect_job(environment: Mapping[str, str]) -> CiJob | None:
    """Read the CI job from its variables; None where this is no CI of a forge."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github_job(environment)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab_job(environment)
    return None


def is_gitea(environment: Mapping[str, str]) -> bool:
    """Return whether this is a runner of Gitea or Forgejo, which set GitHub's variables too."""
    return environment.get("GITEA_ACTIONS") == "true" or environment.get("FORGEJO_ACTIONS") == "true"


def _github_job(environment: Mapping[str, str]) -> CiJob:
    kind = Kind.GITEA if is_gitea(environment) else Kind.GITHUB
    url = _required(environment, "GITHUB_SERVER_URL")
    repository = Repository(kind, url.rstrip("/"), _required(environment, "GITHUB_REPOSITORY"))
    event = environment.get("GITHUB_EVENT_PATH", "")
    if not event:
        return CiJob(repository)
    try:
        event_data = Document.of(_read_event(Path(event)))
        if event_data.has("pull_request.number"):
            pull_request = event_data.part("pull_request")
            return CiJob(
                repository,
                pull_request.number("number"),
                pull_request.commit("head.sha"),
                pull_request.some_text("head.ref"),
                pull_request.some_text("base.ref"),
                pull_request.some_text("base.sha"),
            )
        if event_data.has("issue.pull_request") or event_data.has("is_pull"):
            return CiJob(repository, event_data.number("issue.number"))
    except UnreadableError as error:
        raise ConfigurationError(f"GITHUB_EVENT_PATH cannot be read: {error.message}") from None
    return CiJob(repository)


def _gitlab_job(environment: Mapping[str, str]) -> CiJob:
    path = environment.get("CI_MERGE_REQUEST_PROJECT_PATH", "") or _required(environment, "CI_PROJECT_PATH")
    repository = Repository(Kind.GITLAB, _required(environment, "CI_SERVER_URL").rstrip("/"), path)
    number = environment.get("CI_MERGE_REQUEST_IID", "")
    if not number.isdecimal():
        return CiJob(repository)
    # In pipelines of merged results the job's own commit is the merge; then this one is the head.
    head = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "") or environment.get("CI_COMMIT_SHA", "")
    return CiJob(
        repository,
        int(number),
        head,
        environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""),
    )


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise ConfigurationError(f"{name} is not set, and every job of this CI has it")
    return value


def _read_event(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"GITHUB_EVENT_PATH cannot be read: {error.strerror}") from None


_HOSTS = {
    "github.com": Kind.GITHUB,
    "ssh.github.com": Kind.GITHUB,
    "gitlab.com": Kind.GITLAB,
    "altssh.gitlab.com": Kind.GITLAB,
    "codeberg.org": Kind.GITEA,
    "gitea.com": Kind.GITEA,
}
_WEB_HOSTS = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}  # ssh on port 443 has names of its own
_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):(?P<path>.*)")
_TOKEN_VARIABLES = {Kind.GITHUB: "GITHUB_TOKEN", Kind.GITLAB: "GITLAB_TOKEN", Kind.GITEA: "GITEA_TOKEN"}
_RIGHTS = {
    Kind.GITHUB: "one that may write pull requests and commit statuses",
    Kind.GITLAB: "a project access token with the scope api and the role Developer (CI_JOB_TOKEN may not comment)",
    Kind.GITEA: "one with the scopes write:issue, write:repository and read:user",
}


def detect_repository(remote: str, settings: Forge, job: CiJob | None = None) -> Repository:
    """Return the repository: settings go first, then the CI job, then the address of the remote.

    Raises ConfigurationError with the setting to make for what none of them tells.
    """
    url, path = _split_address(remote)
    job_repository = job.repository if job else None
    url = settings.url or (job_repository.url if job_repository else url)
    kind = (
        Kind(settings.kind)
        if settings.kind
        else job_repository.kind
        if job_repository
        else _HOSTS.get(urlsplit(url).hostname or "")
    )
    if not url:
        raise ConfigurationError(
            "it is not known on which forge this repository is: its remote is no address of one",
            hint="say it in fleet.toml of the base branch: [forge] kind, url and repository",
            field="forge.url",
        )
    if kind is None:
        raise ConfigurationError(
            f"it is not known which kind of forge {url} is",
            hint='say it in fleet.toml of the base branch: [forge] kind = "github", "gitlab" or "gitea"',
            field="forge.kind",
        )
    path = settings.repository or (job_repository.path if job_repository else _strip_sub_path(url, path))
    if "/" not in path:
        raise ConfigurationError(
            f"it is not known which repository of {url} this is",
            hint='say it in fleet.toml of the base branch: [forge] repository = "team/fleet"',
            field="forge.repository",
        )
    return Repository(kind, url, path)


def read_token(repository: Repository, environment: Mapping[str, str]) -> str:
    """Read the token from the environment and nowhere else. A token for one kind of forge is never sent to another."""
    names = ["FLEET_FORGE_TOKEN", _TOKEN_VARIABLES[repository.kind]]
    if is_gitea(environment):  # its Actions give their own token GitHub's name
        names = ["FLEET_FORGE_TOKEN", *(["GITEA_TOKEN", "GITHUB_TOKEN"] if repository.kind is Kind.GITEA else [])]
    for name in names:
        value = environment.get(name, "").strip()
        if value:
            if not value.isascii() or not value.isprintable() or " " in value:
                raise AccessError(f"{name} is no token: it has spaces or letters that no token has")
            return value
    raise AccessError(
        f"there is no token for {repository.url}",
        hint=f"set {names[0]}{''.join(f' or {name}' for name in names[1:])}: {_RIGHTS[repository.kind]}",
    )


def _split_address(remote: str) -> tuple[str, str]:
    """Return the forge's web address and the path behind it; ("", "") for what is no address of a host."""
    scheme, separator, _ = remote.partition("://")
    if not separator:
        match = _SCP.fullmatch(remote)
        if not match or remote.startswith((".", "/")):
            return "", ""
        return f"https://{_WEB_HOSTS.get(match['host'].lower(), match['host'].lower())}", _strip_git_suffix(
            match["path"]
        )
    if scheme.lower() not in ("https", "http", "ssh"):
        return "", ""
    parts = urlsplit(remote)
    host = (parts.hostname or "").lower()
    shown = f"[{host}]" if ":" in host else _WEB_HOSTS.get(host, host)
    if scheme.lower() == "ssh":  # its port says nothing about the web's
        return f"https://{shown}", _strip_git_suffix(unquote(parts.path))
    return f"{scheme.lower()}://{shown}{f':{parts.port}' if parts.port else ''}", _strip_git_suffix(unquote(parts.path))


def _strip_sub_path(url: str, path: str) -> str:
    """Return the path without the forge's own sub-path, which an address over https has and one over ssh has not."""
    prefix = urlsplit(url).path.strip("/")
    return path.removeprefix(f"{prefix}/") if prefix else path


def _strip_git_suffix(path: str) -> str:
    return path.strip("/").removesuffix(".git").strip("/")
