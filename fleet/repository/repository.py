"""A fleet's repository as a directory: its root, its settings, its stack and cluster files, its identity.

A revision of git is materialised into a directory first, so nothing in this module knows git. It does not read or run
the Python files either; it only lists them.

The identity is the name by which a cluster remembers which repository its stacks come from. It must be the same in
every clone, shallow ones of CI included, whatever the clone's directory is called and however it is reached. So it is
what `fleet.toml` says; else the remote's address without protocol, user and password; else, where there is no remote,
the first commit. Where none is known it is "": such a repository owns only stacks that no repository owns.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from fleet.errors import ConfigurationError, Source
from fleet.repository.settings import FILE, Settings, read_settings
from fleet.repository.toml import LARGEST
from fleet.text import printable

if TYPE_CHECKING:
    from fleet.repository.lockfile import Lock


@dataclass(frozen=True, slots=True)
class Repository:
    root: Path
    settings: Settings = field(default_factory=Settings)
    locked: str | None = None  # the text of the lockfile where it is not the one of these files

    @classmethod
    def at(cls, root: Path, *, settings: Settings | None = None, locked: str | None = None) -> Repository:
        """Return the repository at `root`. The rest is given when it is another's (the base of a pull request)."""
        root = root.resolve()
        return cls(root, settings or read_settings(_read_text(root / FILE)), locked)

    @classmethod
    def find(cls, start: Path | None = None) -> Repository:
        """Return the repository around `start` (or the current directory): the nearest directory upwards with a
        fleet.toml.
        """
        return cls.at(find_root(start))

    def stack_files(self) -> tuple[str, ...]:
        """Return the files that may hold stacks, relative to the root, sorted."""
        return self._files("stacks", self.settings.paths.stacks)

    def cluster_files(self) -> tuple[str, ...]:
        """Return the files that hold clusters, relative to the root, sorted."""
        return self._files("clusters", self.settings.paths.clusters)

    def lock(self) -> Lock:
        """Return the packages that stacks may import; none if the repository has no lockfile."""
        from fleet.repository.lockfile import Lock, read_lock  # noqa: PLC0415 - only where something is evaluated

        file = self.settings.paths.lock
        if self.locked is not None:
            return read_lock(file, self.locked, of_base=True)
        path = self.root / file
        exists = path.is_file() and _is_below(path, self.root)
        return read_lock(file, _read_text(path, file)) if exists else Lock(file)

    def _files(self, what: str, directory: str) -> tuple[str, ...]:
        top = self.root / directory
        if not top.is_dir() or not _is_below(top, self.root):
            raise ConfigurationError(
                f"the directory {directory}/ for {what} does not exist",
                hint=f"make it, or name another one in {FILE} under [paths]",
                source=Source(FILE),
                field=f"paths.{what}",
            )
        paths = (path for path in _python_files(top) if _is_below(path, self.root))
        names = tuple(sorted(path.relative_to(self.root).as_posix() for path in paths))
        for name in names:
            if any("\ud800" <= letter <= "\udfff" for letter in name):  # so Python has bytes that are none
                raise ConfigurationError(
                    "the name of the file is not UTF-8 text", hint="rename it", source=Source(name)
                )
            if printable(name) != name or "\n" in name or "\t" in name:
                shown_name = " ".join(printable(name).split())
                raise ConfigurationError(
                    "the name of the file has characters that no line can show",
                    hint="rename it",
                    source=Source(shown_name),
                )
        return names


def find_root(start: Path | None = None) -> Path:
    """Return the nearest directory upwards with a fleet.toml, from `start` or the current one; raise ConfigurationError
    if there is none.
    """
    start = (start or Path.cwd()).resolve()
    for directory in (start, *start.parents):
        if (directory / FILE).is_file():
            return directory
    raise ConfigurationError(
        f"there is no {FILE} in {start} or above it", hint="run fleet inside a repository; `fleet init` makes one"
    )


def _python_files(top: Path) -> Iterator[Path]:
    """Yield Python files below `top`, except tests, hidden ones and those with a leading underscore (shared code)."""
    for directory, names, files in os.walk(top, followlinks=False):
        names[:] = [name for name in names if not name.startswith((".", "_"))]
        for name in files:
            if name.endswith(".py") and not name.startswith((".", "_", "test_")) and name != "conftest.py":
                yield Path(directory, name)


def _is_below(path: Path, root: Path) -> bool:
    """Return whether the path, links followed, stays in the repository: a link must not bring in a file of this
    machine.
    """
    return path.resolve().is_relative_to(root)


def _read_text(path: Path, file: str = FILE) -> str:
    try:
        data = path.read_bytes()
        if len(data) > LARGEST:
            raise ConfigurationError("is larger than 64 KiB", hint="it has no reason to be", source=Source(file))
        return data.decode()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ConfigurationError(
            f"there is no {FILE} in {path.parent}", hint="`fleet init` makes a repository"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigurationError("is not UTF-8 text", hint="save it as UTF-8", source=Source(file, line)) from None


_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):(?P<path>.*)")
_USUAL_PORTS = {"https": 443, "http": 80}


def repository_identity(name: str, *, remote: str = "", first_commit: str = "", below: str = "") -> str:
    """Return the identity of a repository.

    `below` is the directory of `fleet.toml` in the git repository: one may hold several fleets.
    """
    if name:
        return name
    base = identity_of_url(remote) if remote else f"commit-{first_commit[:12]}" if first_commit else ""
    return f"{base}//{below}" if base and below not in ("", ".") else base


def identity_of_url(url: str) -> str:
    """Return the identity of an address: `git@host:team/fleet.git`, `https://host/team/fleet` → `host/team/fleet`; of a
    local path, that path.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        match = _SCP.fullmatch(url)
        return _join_identity(match["host"], match["path"]) if match else _normalise_path(url)
    scheme = scheme.lower()
    if scheme == "file":
        return _normalise_path(unquote(rest))
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    # Forges have ssh on any port and mean one place; two web servers on one host are two.
    port_text = f":{port}" if port and scheme in _USUAL_PORTS and port != _USUAL_PORTS[scheme] else ""
    return _join_identity(f"[{host}]{port_text}" if ":" in host else f"{host}{port_text}", unquote(parts.path))


def _join_identity(host: str, path: str) -> str:
    """Return host and path in lower case: forges do not tell names by case, and people write them as they like."""
    return f"{host}/{_strip_git_suffix(path).lstrip('/')}".lower()


def _normalise_path(path: str) -> str:
    return _strip_git_suffix(posixpath.normpath(path))


def _strip_git_suffix(path: str) -> str:
    path = path.rstrip("/")
    return path.removesuffix("/.git").removesuffix(".git").rstrip("/")
