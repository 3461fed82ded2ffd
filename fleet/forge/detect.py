"""Which forge, token and CI job.

What a CI job knows of the pull request that it runs for: from GitHub's, Gitea's and GitLab's variables.

Whoever starts a job sets these; they are as good as an option. Which pull request is meant, and which branches and
commits it has, is all that is taken from them: what it is like (whether it is a fork's, above all) the forge is asked.

Which forge a repository is on, and the token for it. Pure: settings, address and environment are given.

Settings are to be those of the base: whoever could choose the forge's address would be sent the token.
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
class Job:
    repository: Repository
    number: int | None = None  # of the pull request; None: the job is not about one
    head: str = ""  # the commit that the job was started for; "": the job is about whatever the head is
    head_ref: str = ""  # the branch that it is on; "" where the job is not told
    base_ref: str = ""  # the branch that it is to be merged into
    base_sha: str = ""  # a commit of that branch


def job(environment: Mapping[str, str]) -> Job | None:
    """None where this is no CI of a forge."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github(environment)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab(environment)
    return None


def is_gitea(environment: Mapping[str, str]) -> bool:
    """Gitea's and Forgejo's runners set GitHub's variables too."""
    return environment.get("GITEA_ACTIONS") == "true" or environment.get("FORGEJO_ACTIONS") == "true"


def _github(environment: Mapping[str, str]) -> Job:
    kind = Kind.GITEA if is_gitea(environment) else Kind.GITHUB
    url = _given(environment, "GITHUB_SERVER_URL")
    repository = Repository(kind, url.rstrip("/"), _given(environment, "GITHUB_REPOSITORY"))
    event = environment.get("GITHUB_EVENT_PATH", "")
    if not event:
        return Job(repository)
    try:
        said = Document.of(_content(Path(event)))
        if said.has("pull_request.number"):
            pull_request = said.part("pull_request")
            return Job(
                repository,
                pull_request.number("number"),
                pull_request.commit("head.sha"),
                pull_request.some_text("head.ref"),
                pull_request.some_text("base.ref"),
                pull_request.some_text("base.sha"),
            )
        if said.has("issue.pull_request") or said.has("is_pull"):
            return Job(repository, said.number("issue.number"))
    except UnreadableError as error:
        raise ConfigurationError(f"GITHUB_EVENT_PATH cannot be read: {error.message}") from None
    return Job(repository)


def _gitlab(environment: Mapping[str, str]) -> Job:
    path = environment.get("CI_MERGE_REQUEST_PROJECT_PATH", "") or _given(environment, "CI_PROJECT_PATH")
    repository = Repository(Kind.GITLAB, _given(environment, "CI_SERVER_URL").rstrip("/"), path)
    number = environment.get("CI_MERGE_REQUEST_IID", "")
    if not number.isdecimal():
        return Job(repository)
    # In pipelines of merged results the job's own commit is the merge; then this one is the head.
    head = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "") or environment.get("CI_COMMIT_SHA", "")
    return Job(
        repository,
        int(number),
        head,
        environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""),
    )


def _given(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise ConfigurationError(f"{name} is not set, and every job of this CI has it")
    return value


def _content(path: Path) -> bytes:
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
_WEB = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}  # ssh on port 443 has names of its own
_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):(?P<path>.*)")
_OWN = {Kind.GITHUB: "GITHUB_TOKEN", Kind.GITLAB: "GITLAB_TOKEN", Kind.GITEA: "GITEA_TOKEN"}
_RIGHTS = {
    Kind.GITHUB: "one that may write pull requests and commit statuses",
    Kind.GITLAB: "a project access token with the scope api and the role Developer (CI_JOB_TOKEN may not comment)",
    Kind.GITEA: "one with the scopes write:issue, write:repository and read:user",
}


def find(remote: str, settings: Forge, job: Job | None = None) -> Repository:
    """What settings say goes first, then what a CI job knows, then what the address of the remote tells."""
    url, path = _web(remote)
    known = job.repository if job else None
    url = settings.url or (known.url if known else url)
    kind = Kind(settings.kind) if settings.kind else known.kind if known else _HOSTS.get(urlsplit(url).hostname or "")
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
    path = settings.repository or (known.path if known else _below(url, path))
    if "/" not in path:
        raise ConfigurationError(
            f"it is not known which repository of {url} this is",
            hint='say it in fleet.toml of the base branch: [forge] repository = "team/fleet"',
            field="forge.repository",
        )
    return Repository(kind, url, path)


def token(repository: Repository, environment: Mapping[str, str]) -> str:
    """From the environment and nowhere else. A token for one forge is never sent to another kind of it."""
    names = ["FLEET_FORGE_TOKEN", _OWN[repository.kind]]
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


def _web(remote: str) -> tuple[str, str]:
    """Where people open the forge, and the path behind it; ("", "") for what is no address of a host."""
    scheme, separator, _ = remote.partition("://")
    if not separator:
        match = _SCP.fullmatch(remote)
        if not match or remote.startswith((".", "/")):
            return "", ""
        return f"https://{_WEB.get(match['host'].lower(), match['host'].lower())}", _bare(match["path"])
    if scheme.lower() not in ("https", "http", "ssh"):
        return "", ""
    parts = urlsplit(remote)
    host = (parts.hostname or "").lower()
    shown = f"[{host}]" if ":" in host else _WEB.get(host, host)
    if scheme.lower() == "ssh":  # its port says nothing about the web's
        return f"https://{shown}", _bare(unquote(parts.path))
    return f"{scheme.lower()}://{shown}{f':{parts.port}' if parts.port else ''}", _bare(unquote(parts.path))


def _below(url: str, path: str) -> str:
    """Without the forge's own sub-path, which an address over https has and one over ssh has not."""
    prefix = urlsplit(url).path.strip("/")
    return path.removeprefix(f"{prefix}/") if prefix else path


def _bare(path: str) -> str:
    return path.strip("/").removesuffix(".git").strip("/")
