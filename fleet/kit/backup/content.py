"""Files and trees on the volumes of backups: written so that they last, and read without following links.

Others may write to a store, too: a link in a tree could lead to what is not in it, and a pipe would never answer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from fleet.errors import ResourceError

_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def write(file: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, even after a power cut."""
    temporary = file.with_name(f".{file.name}.part")
    with temporary.open("w") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    temporary.replace(file)
    sync(file.parent)


def read_beginning(file: Path, most: int) -> str:
    """Return the first `most` bytes of a plain file as text; raise OSError for what is none, such as a pipe."""
    with os.fdopen(_open(file), "rb") as content:
        return content.read(most).decode()


def sync_file(file: Path) -> None:
    """Make its content last."""
    descriptor = _open(file)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync(directory: Path) -> None:
    """Make names in a directory last."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(path: Path) -> None:
    """Make a file, or a tree with all that is in it, last."""
    if not path.is_dir():
        sync_file(path)
        return
    for root, _, files in os.walk(path, topdown=False):
        for name in files:
            if stat.S_ISREG((Path(root) / name).lstat().st_mode):
                sync_file(Path(root) / name)
        sync(Path(root))


def delete(path: Path) -> None:
    """Delete a file, a link or a tree; it need not be there. ResourceError if a part of a tree stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # another Job may be at it, too
        if path.exists():
            raise ResourceError(f"{path.name} cannot be deleted")
    else:
        path.unlink(missing_ok=True)


def tree_digest(tree: Path) -> tuple[int, str]:
    """Return the size and checksum of a tree, of names, empty directories and contents alike. Raise ResourceError if
    there is anything but files and directories in it."""
    size, digest = 0, hashlib.sha256()
    for entry in _entries(tree):
        name = os.fsencode(entry.relative_to(tree)) + b"\0"  # which no name has in it
        if entry.is_dir():
            digest.update(b"directory " + name)
            continue
        length, content = file_digest(entry)
        size += length
        digest.update(content.encode() + b" " + name)
    return size, f"sha256:{digest.hexdigest()}"


def file_digest(file: Path) -> tuple[int, str]:
    """Return the size of a file and the SHA-256 of its content; raise OSError for what is no plain file."""
    size, digest = 0, hashlib.sha256()
    with os.fdopen(_open(file), "rb", buffering=0) as content:
        if hasattr(os, "posix_fadvise"):
            # What is checked is what the disk has, as far as it was synced, not what memory still knows of it.
            os.posix_fadvise(content.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            digest.update(chunk)
    return size, digest.hexdigest()


def copy_tree(source: Path, target: Path) -> None:
    """Copy a tree, for its owner alone. Raise ResourceError if there is anything but files and directories in it."""
    target.mkdir(mode=0o700)
    for entry in _entries(source):
        copy = target / entry.relative_to(source)
        if entry.is_dir():
            copy.mkdir(mode=0o700)
            continue
        with os.fdopen(_open(entry), "rb") as content, copy.open("xb") as written:
            shutil.copyfileobj(content, written, _CHUNK)
        copy.chmod(0o600)


def _entries(tree: Path, directory: Path | None = None) -> Iterator[Path]:
    """Yield all that is in a tree, each directory before what is in it, in an order that is always the same."""
    for entry in sorted((directory or tree).iterdir()):
        mode = entry.lstat().st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise ResourceError(f"{entry.relative_to(tree.parent)} is neither a file nor a directory")
        yield entry
        if stat.S_ISDIR(mode):
            yield from _entries(tree, entry)


def _open(file: Path) -> int:
    descriptor = os.open(file, _READ)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{file.name} is no file")
    return descriptor
