"""Detection of the forge that a repository is on, of its token and of the CI job. Pure: settings, address and
environment are given.

Settings are to be those of the base: an author who could choose the forge's address would be sent the token.

A CI job knows the pull request that it runs for from the variables of its forge. The user who starts a
job sets these; they are as good as an option. Which pull request is meant, and which branches and commits it has, is
all that is taken from them: what it is like (above all whether it comes from a fork) is asked of the forge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import unquote, urlsplit

from fleet.errors import AccessError, ConfigurationError
from fleet.forge import FORGES, TOKEN_VARIABLE
from fleet.forge.forge import CiJob, ForgeKind, ForgeRepository, load_kind, load_kinds


class ForgeChoice(Protocol):
    """What `[forge]` in fleet.toml says; "" for what it does not."""

    @property
    def kind(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def repository(self) -> str: ...


def detect_job(environment: Mapping[str, str]) -> CiJob | None:
    """Read the CI job from its variables; None where this is no CI of a forge."""
    kind = _detect_ci(environment)
    return kind.read_job(environment) if kind else None


def _detect_ci(environment: Mapping[str, str]) -> ForgeKind | None:
    """Return the kind of forge whose CI this is."""
    return next(
        (kind for kind in load_kinds() if any(environment.get(name) == "true" for name in kind.job_variables)), None
    )


_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):(?P<path>.*)")


def detect_repository(remote: str, settings: ForgeChoice, job: CiJob | None = None) -> ForgeRepository:
    """Return the repository: settings go first, then the CI job, then the address of the remote.

    Raises ConfigurationError with the setting to make for what none of them tells.
    """
    url, path = _split_address(remote)
    job_repository = job.repository if job else None
    url = settings.url or (job_repository.url if job_repository else url)
    kind = settings.kind or (job_repository.kind if job_repository else _kind_of_host(urlsplit(url).hostname or ""))
    if not url:
        raise ConfigurationError(
            "it is not known on which forge this repository is: its remote is no address of one",
            hint="say it in fleet.toml of the base branch: [forge] kind, url and repository",
            field="forge.url",
        )
    if not kind:
        raise ConfigurationError(
            f"it is not known which kind of forge {url} is",
            hint=f"say it in fleet.toml of the base branch: [forge] kind = {_list_kinds()}",
            field="forge.kind",
        )
    path = settings.repository or (job_repository.path if job_repository else _strip_sub_path(url, path))
    if "/" not in path:
        raise ConfigurationError(
            f"it is not known which repository of {url} this is",
            hint='say it in fleet.toml of the base branch: [forge] repository = "team/fleet"',
            field="forge.repository",
        )
    return ForgeRepository(kind, url, path)


def read_token(repository: ForgeRepository, environment: Mapping[str, str]) -> str:
    """Read the token from the environment and nowhere else. A token for one kind of forge is never sent to another."""
    kind, ci = load_kind(repository.kind), _detect_ci(environment)
    names = [TOKEN_VARIABLE]
    if ci is None or ci is kind or ci.job_token != kind.token_variable:
        names.append(kind.token_variable)
    if ci is kind and kind.job_token:
        names.append(kind.job_token)
    for name in names:
        value = environment.get(name, "").strip()
        if value:
            if not value.isascii() or not value.isprintable() or " " in value:
                raise AccessError(f"{name} is no token: it has spaces or letters that no token has")
            return value
    raise AccessError(
        f"there is no token for {repository.url}",
        hint=f"set {names[0]}{''.join(f' or {name}' for name in names[1:])}: {kind.token_rights}",
    )


def token_variables() -> tuple[str, ...]:
    """Return the environment variables that may hold a token of a forge."""
    names = (name for kind in load_kinds() for name in (kind.token_variable, kind.job_token) if name)
    return tuple(dict.fromkeys((TOKEN_VARIABLE, *names)))


def _kind_of_host(host: str) -> str:
    return next((kind.name for kind in load_kinds() if host in kind.hosts), "")


def _web_host(host: str) -> str:
    """Return the host of the web for the one in an address: ssh on port 443 has names of its own."""
    return next((kind.hosts[host] for kind in load_kinds() if host in kind.hosts), host)


def _list_kinds() -> str:
    *names, last = (f'"{name}"' for name in FORGES)
    return f"{', '.join(names)} or {last}"


def _split_address(remote: str) -> tuple[str, str]:
    """Return the forge's web address and the path behind it; ("", "") for what is no address of a host."""
    scheme, separator, _ = remote.partition("://")
    if not separator:
        match = _SCP.fullmatch(remote)
        if not match or remote.startswith((".", "/")):
            return "", ""
        return f"https://{_web_host(match['host'].lower())}", _strip_git_suffix(match["path"])
    if scheme.lower() not in ("https", "http", "ssh"):
        return "", ""
    parts = urlsplit(remote)
    host = (parts.hostname or "").lower()
    shown = f"[{host}]" if ":" in host else _web_host(host)
    if scheme.lower() == "ssh":  # its port says nothing about the web's
        return f"https://{shown}", _strip_git_suffix(unquote(parts.path))
    return f"{scheme.lower()}://{shown}{f':{parts.port}' if parts.port else ''}", _strip_git_suffix(unquote(parts.path))


def _strip_sub_path(url: str, path: str) -> str:
    """Return the path without the forge's own sub-path, which an address over https has and one over ssh has not."""
    prefix = urlsplit(url).path.strip("/")
    return path.removeprefix(f"{prefix}/") if prefix else path


def _strip_git_suffix(path: str) -> str:
    return path.strip("/").removesuffix(".git").strip("/")
