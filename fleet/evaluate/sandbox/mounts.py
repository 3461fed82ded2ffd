# ruff: noqa: PTH102, PTH110, PTH112, PTH116, PTH120 - every worker does this first: plain calls take a third of the time
"""The part of the machine that a worker sees: the tree, Python with its libraries, a few devices, its own /tmp.

A zygote makes the list once, and it serves both levels: as mounts where there is a mount namespace, so that nothing
else exists there at all, and as what Landlock grants. Nothing in it is personal: no home directory, no /proc, and of
/etc only what the standard library reads.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleet import ROOT
from fleet.apps.registry import installed_directories
from fleet.evaluate.sandbox import kernel
from fleet.evaluate.sandbox.landlock import LIST, READ, WRITE, FileAccess

TEMPORARY = "/tmp"  # noqa: S108 - the worker's own
TEMPORARY_BYTES, TEMPORARY_FILES = 16 * 1024 * 1024, 1024
HIDDEN = frozenset({".git"})  # may hold addresses with passwords, and files that were never committed
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_ASKED_BY_PYTHON = ("/usr/share/zoneinfo", "/etc/localtime", "/etc/mime.types")
_STAGE = "/sys"  # any directory that no worker reads; only this process sees what is mounted there

_NO_SUID, _NO_DEVICES, _NO_PROGRAMS, _RDONLY = 2, 4, 8, 1  # MS_* and MOUNT_ATTR_*: the same numbers
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 4096, 16384, 1 << 18, 2
_AT_CURRENT, _AT_RECURSIVE = -100, 0x8000


@dataclass(frozen=True, slots=True)
class Mounts:
    """The view of a worker, besides the tree."""

    installed: tuple[str, ...]  # readable paths, each with what is below

    def grant_paths(self, root: str, *more: str, writing: bool) -> Iterator[tuple[str, FileAccess]]:
        """Yield the paths that Landlock grants, and the access to each.

        `more` are other directories to read, each with what is below.
        """
        yield from ((path, READ) for path in (*self.installed, *more))
        yield from ((device, FileAccess.READ_FILE | FileAccess.WRITE_FILE) for device in DEVICES)
        if writing:
            yield TEMPORARY, WRITE
        entries = list(os.scandir(root))
        if HIDDEN.isdisjoint(entry.name for entry in entries):
            yield root, READ
            return
        yield root, LIST  # lists everything; files are granted per entry, and so not those of hidden ones
        for entry in entries:
            if (
                entry.name not in HIDDEN and not entry.is_symlink()
            ):  # a grant would be for its target, and not for the link
                yield entry.path, READ

    def mount(self, root: str, *more: str) -> None:
        """Make the view all that exists in this process' own mount namespace, and change into the tree."""
        _mount("tmpfs", _STAGE, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=755,size=1m,nr_inodes=4096")
        os.mkdir(_STAGE + TEMPORARY)
        options = f"mode=1777,size={TEMPORARY_BYTES},nr_inodes={TEMPORARY_FILES}"
        _mount("tmpfs", _STAGE + TEMPORARY, "tmpfs", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS, options)
        directories = {"", TEMPORARY}  # that exist in the view
        for path in _outermost((*self.installed, root, *more)):
            _bind(path, _NO_SUID | _NO_DEVICES, directories)
        for device in DEVICES:
            _bind(device, _NO_SUID, directories)
        for hidden in (f"{root}/{name}" for name in HIDDEN):
            if os.path.isdir(hidden):
                _mount("tmpfs", _STAGE + hidden, "tmpfs", _RDONLY, "mode=0,size=4k")
            elif os.path.exists(hidden):
                _mount("/dev/null", _STAGE + hidden, "", _BIND, "")
        _protect(_STAGE, 0, 0)
        os.chdir(_STAGE)
        kernel.call("pivot_root", b".", b".")  # the old root is now on top of the new one
        kernel.call("umount2", b".", _DETACH)
        os.chdir(root)


def installed_mounts() -> Mounts:
    """Return the existing paths that this Python consists of. Each is for installed files; none is personal."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages", "lib-dynload")}
    paths |= {str(Path(sysconfig.get_path("stdlib")).parent)} - {"/"}  # libpython
    paths |= {ROOT, *_LIBRARIES, *_ASKED_BY_PYTHON, *map(str, installed_directories())}
    return Mounts(tuple(_outermost(tuple(path for path in paths if Path(path).exists()))))


def make_private() -> None:
    """Hide later mounts of this mount namespace from all others, and theirs from this one."""
    _mount("none", "/", "", _RECURSIVE | _PRIVATE, "")


def _outermost(paths: tuple[str, ...]) -> list[str]:
    """Return the paths that are not below another one of them."""
    outermost: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(f"{above}/") for above in outermost):
            outermost.append(path)
    return outermost


def _bind(path: str, flags: int, directories: set[str]) -> None:
    """Mount a file or directory at the same path of the view, read-only; do nothing if it is missing."""
    try:
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        return
    _make_directories(path if is_directory else os.path.dirname(path), directories)
    if not is_directory:
        os.close(os.open(_STAGE + path, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(path, _STAGE + path, "", _BIND | _RECURSIVE, "")
    _protect(_STAGE + path, flags, _AT_RECURSIVE)


def _make_directories(path: str, directories: set[str]) -> None:
    """Make a directory of the view and those above it, unless they are among the existing `directories`."""
    if path in directories:
        return
    _make_directories(path.rpartition("/")[0], directories)
    with contextlib.suppress(FileExistsError):  # below a tree that is mounted already
        os.mkdir(_STAGE + path, 0o755)
    directories.add(path)


def _protect(place: str, flags: int, lookup: int) -> None:
    """Make a mount read-only, in addition to the flags that it has already."""
    attributes = (flags | _RDONLY).to_bytes(8, sys.byteorder) + bytes(24)
    kernel.call("mount_setattr", _AT_CURRENT, place.encode(), lookup, attributes, len(attributes))


def _mount(source: str, place: str, kind: str, flags: int, options: str) -> None:
    kernel.call("mount", os.fsencode(source), os.fsencode(place), kind.encode(), flags, options.encode())
