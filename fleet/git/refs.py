"""Rules for the urls, revisions and ref names that are let through to git. Pure.

Git reads arguments that start with '-' as options, `helper::address` as a program to run and plain paths as
remotes; all three have run commands for attackers. What is refused here never reaches a command line.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from fleet.errors import ConfigurationError, PolicyError
from fleet.text import without_credentials

_SCP = re.compile(r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!//|:)[^-:].*")
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::|::")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]")
_USER = re.compile(r"[A-Za-z0-9._~%+][A-Za-z0-9._~%+=-]*")
_REF_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|\.$|/$|^/|^\.|^-|/-|^@$")


@dataclass(frozen=True, slots=True)
class Address:
    """A remote that may be talked to: the url for git, and the one protocol that it may use."""

    url: str
    protocol: str

    def __str__(self) -> str:
        return without_credentials(self.url)


def address(url: str, *, by_person: bool) -> Address:
    """Judge a remote's url. `by_person`: a user configured it on this machine; it is not repository content.

    https and ssh are for every repository. Local paths, and http to this machine, are for remotes that a user set: from
    repository content they would read files or reach services that its author cannot.

    Raises PolicyError for a url that is refused.
    """
    shown = without_credentials(url)
    if not url or url.startswith("-") or any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in url):
        raise PolicyError(
            f"the remote url {shown!r} is refused: it is empty, has control characters or looks like an option"
        )
    if _HELPER.match(url):
        raise PolicyError(
            f"the remote url {shown!r} is refused: it names a remote helper, which is a program to run",
            hint="use https://host/path, ssh://user@host/path or user@host:path",
        )
    protocol = _protocol(url, shown)
    if protocol == "file" and not by_person:
        raise PolicyError(
            f"the remote {shown!r} is a local path, and those are taken only from this machine's own configuration",
            hint="set it with `git remote add`, or use https or ssh",
        )
    if protocol == "http" and not (by_person and _is_loopback(urlsplit(url).hostname or "")):
        raise PolicyError(f"the remote {shown!r} uses http without TLS", hint="use https, or ssh")
    return Address(url, protocol)


def revision(text: str) -> str:
    """Return a revision as users write it (`main`, `HEAD~2`, an id), refused where git would read something else."""
    if not text or text.startswith("-") or len(text) > 1024 or not text.isprintable():
        raise ConfigurationError(
            f"{text!r} is not a revision", hint="name a branch, a tag or a commit id, for example `main`"
        )
    return text


def ref(name: str) -> str:
    """Return a full ref name under refs/, refused where it breaks the rules of `git check-ref-format`."""
    if not name.startswith("refs/") or name.count("/") < 2 or len(name) > 512 or _REF_FORBIDDEN.search(name):
        raise ConfigurationError(f"{name!r} is not a full ref name", hint="for example refs/heads/fleet/status")
    return name


def branch_ref(name: str) -> str:
    """Return the full ref of a branch's short name."""
    try:
        return ref(f"refs/heads/{name}" if not name.startswith("-") else name)
    except ConfigurationError:
        raise ConfigurationError(f"{name!r} is not a branch name", hint="for example fleet/status") from None


def _protocol(url: str, shown: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator:
        # git reads `host:path` as ssh unless a slash comes before the colon
        return "ssh" if _SCP.fullmatch(url) and "/" not in url.partition(":")[0] else _local_path(url, shown)
    scheme = scheme.lower()
    if scheme == "file":
        return "file"
    if scheme not in ("https", "ssh", "http"):
        raise PolicyError(f"the remote url {shown!r} uses {scheme!r}", hint="only https and ssh are allowed")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise PolicyError(f"the remote url {shown!r} has no valid host and port") from None
    if not _HOST.fullmatch(f"[{host}]" if ":" in host else host) or parts.path.startswith("/-"):
        raise PolicyError(f"the remote url {shown!r} has a host or path that looks like an option or is empty")
    if parts.username and not _USER.fullmatch(parts.username):
        raise PolicyError(f"the remote url {shown!r} has a user name that looks like an option")
    return scheme


def _local_path(url: str, shown: str) -> str:
    if ":" in url.partition("/")[0]:
        raise PolicyError(f"the remote url {shown!r} is refused: neither a path nor user@host:path")
    return "file"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
