"""State files and paths.

Files that are there whole or not at all, and errors of the disk that say what to do.

Where the lab keeps things: caches that any lab may use, and one state directory per lab.

Paths are absolute: programs of a lab are told them, and run elsewhere than whoever started them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from fleet.errors import AccessError, ResourceError


def write(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write through a temporary name beside it: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def remove(path: Path) -> None:
    """Have nothing there, whatever it was: a file, a directory with all that is in it, a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def keep(source: Path, target: Path) -> None:
    """Have a file's content under another name too, for as long as that is needed: a link where possible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn the disk's own errors into ones that a person can act on."""
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(
                f"the disk is full while {doing}{place}",
                hint="free some space, or put the cache elsewhere with FLEET_CACHE_DIR and labs with FLEET_STATE_DIR",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise AccessError(
                f"no permission while {doing}{place}",
                hint="use a directory that you own: FLEET_CACHE_DIR for caches, FLEET_STATE_DIR for labs",
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
            raise ResourceError(
                f"something else is where files belong, while {doing}{place}",
                hint="remove it, or put the cache elsewhere with FLEET_CACHE_DIR and labs with FLEET_STATE_DIR",
            ) from error
        raise


def cache() -> Path:
    """Built binaries and images. Safe to delete at any time; what is missing is built again."""
    return Path(os.environ.get("FLEET_CACHE_DIR") or platformdirs.user_cache_path("fleet")).absolute()


def labs() -> Path:
    """The state of labs, one directory each."""
    return Path(os.environ.get("FLEET_STATE_DIR") or platformdirs.user_state_path("fleet")).absolute() / "labs"


def modules() -> Path:
    """The Go modules that ship inside this package."""
    return Path(__file__).parent / "go"
