"""Files of the lab: the directories of caches and labs, writes that a reader sees whole, and disk errors with a hint.

There are caches that any lab may use, and one state directory per lab. Paths are absolute: programs of a lab get them
as arguments and run in another directory than the command that started them.
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


def write_file(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file through a temporary name beside it, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def hash_file(file: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def remove_path(path: Path) -> None:
    """Remove a file, a link, or a directory with all that is in it; a path that does not exist is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def link_file(source: Path, target: Path) -> None:
    """Give a file's content a second name that outlives the first: a hard link where possible, else a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


@contextmanager
def explain_disk_errors(activity: str) -> Iterator[None]:
    """Turn the disk's own errors into ResourceError and AccessError with a hint that a user can act on."""
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(
                f"the disk is full while {activity}{place}",
                hint="free some space, or put the cache elsewhere with FLEET_CACHE_DIR and labs with FLEET_STATE_DIR",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise AccessError(
                f"no permission while {activity}{place}",
                hint="use a directory that you own: FLEET_CACHE_DIR for caches, FLEET_STATE_DIR for labs",
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
            raise ResourceError(
                f"something else is where files belong, while {activity}{place}",
                hint="remove it, or put the cache elsewhere with FLEET_CACHE_DIR and labs with FLEET_STATE_DIR",
            ) from error
        raise


def cache_directory() -> Path:
    """Return the directory of built binaries and images.

    It is safe to delete at any time; the lab builds again what is missing.
    """
    return Path(os.environ.get("FLEET_CACHE_DIR") or platformdirs.user_cache_path("fleet")).absolute()


def labs_directory() -> Path:
    """Return the directory with the state of labs, one subdirectory each."""
    return Path(os.environ.get("FLEET_STATE_DIR") or platformdirs.user_state_path("fleet")).absolute() / "labs"


def modules_directory() -> Path:
    """Return the directory of the Go modules that ship inside this package."""
    return Path(__file__).parent / "go"
