"""By what name a cluster remembers which repository its stacks come from. Pure.

It must be the same in every clone, shallow ones of CI included, whatever the clone's directory is called and however
it is reached. So it is what `fleet.toml` says; else the remote's address without protocol, user and password; else,
where there is no remote, the first commit. Where none is known it is "": such a repository owns only what nobody does.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urlsplit

_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):(?P<path>.*)")
_USUAL_PORTS = {"https": 443, "http": 80}


def identity(name: str, *, remote: str = "", first_commit: str = "", below: str = "") -> str:
    """`below` is the directory of `fleet.toml` in the git repository: one may hold several fleets."""
    if name:
        return name
    base = of_address(remote) if remote else f"commit-{first_commit[:12]}" if first_commit else ""
    return f"{base}//{below}" if base and below not in ("", ".") else base


def of_address(url: str) -> str:
    """`git@host:team/fleet.git`, `https://host/team/fleet` → `host/team/fleet`; a local path → that path."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        match = _SCP.fullmatch(url)
        return _joined(match["host"], match["path"]) if match else _path(url)
    scheme = scheme.lower()
    if scheme == "file":
        return _path(unquote(rest))
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    # Forges have ssh on any port and mean one place; two web servers on one host are two.
    shown = f":{port}" if port and scheme in _USUAL_PORTS and port != _USUAL_PORTS[scheme] else ""
    return _joined(f"[{host}]{shown}" if ":" in host else f"{host}{shown}", unquote(parts.path))


def _joined(host: str, path: str) -> str:
    """In lower case: forges do not tell names by case, and people write them as they like."""
    return f"{host}/{_bare(path).lstrip('/')}".lower()


def _path(path: str) -> str:
    return _bare(posixpath.normpath(path))


def _bare(path: str) -> str:
    path = path.rstrip("/")
    return path.removesuffix("/.git").removesuffix(".git").rstrip("/")
