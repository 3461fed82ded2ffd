"""Which forge a repository is on, and the token for it. Pure: settings, address and environment are given.

Settings are to be those of the base: whoever could choose the forge's address would be sent the token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from fleet.errors import AccessError, ConfigurationError
from fleet.forge.ci import Job, is_gitea
from fleet.forge.model import Kind, Repository
from fleet.repository.settings import Forge

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
