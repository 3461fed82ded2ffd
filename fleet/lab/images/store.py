"""The cache of images: what it holds, and for how long.

- An archive is called NAME-VERSION-CONTENT.tar. Of a recipe stay the three that were used last, and every one that was
  used in the last hour: another process may be about to load it. Labs have files of their own, so none of them
  misses what is removed here.
- Layers and jars stay as long as an image is made with them at least once a month, wheels for a month. They have their
  checksum in their name: a file that was damaged since is found when it is used.
- Half-made images are in directories that are locked while their maker lives; those of makers that were killed are
  removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fleet.lab import files
from fleet.lab.files import hash_file, remove_path

KEPT_ARCHIVES = 3
HOUR, MONTH = 3600, 30 * 24 * 3600


def images_directory() -> Path:
    return files.cache_directory() / "images"


def jars_directory() -> Path:
    return files.cache_directory() / "jars"


def wheels_directory() -> Path:
    return files.cache_directory() / "wheels"


@contextmanager
def work_directory() -> Iterator[Path]:
    """Make a directory beside the images to make one in; it is removed afterwards."""
    images_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=images_directory(), prefix=".bake-", ignore_cleanup_errors=True) as work:
        handle = os.open(work, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(work)
        finally:
            os.close(handle)


@contextmanager
def lock_archive(archive: Path) -> Iterator[None]:
    """Work on an archive alone, so that two processes that need an image make it once.

    The lock's time says when the image was used last.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with _lock_file(archive).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(_lock_file(archive))
        yield


def find_layer(key: str) -> Path | None:
    """Return the layer that was kept under this key, None if there is none or it is damaged."""
    for file in images_directory().glob(f".base-{key}-*.tar"):
        if file.is_file() and hash_file(file) == file.stem.rpartition("-")[2]:
            return mark_used(file)
        remove_path(file)
    return None


def keep_layer(key: str, layer: Path) -> Path:
    """Move a layer into the cache, under its key and its checksum."""
    return layer.replace(images_directory() / f".base-{key}-{hash_file(layer)}.tar")


def mark_used(file: Path) -> Path:
    """Record that a layer or a jar is still of use, and return it."""
    os.utime(file)
    return file


def newest_archive(recipe: str) -> Path | None:
    """Return the archive of a recipe (NAME-VERSION) that was used last, None if there is none."""
    return max(_list_archives(recipe), key=_last_use, default=None)


def remove_unused(recipe: str) -> None:
    """Remove what is of no use any more, after an image of `recipe` was made."""
    now = time.time()
    older = sorted(_list_archives(recipe), key=_last_use, reverse=True)[KEPT_ARCHIVES:]
    for archive in older:
        if now - _last_use(archive) > HOUR:
            _remove_archive(archive)
    for file in [*images_directory().glob(".base-*.tar"), *jars_directory().glob("*.jar")]:
        if now - _modified_at(file) > MONTH:
            file.unlink(missing_ok=True)
    for wheel in wheels_directory().glob("*/*.whl"):
        if now - _modified_at(wheel) > MONTH:
            shutil.rmtree(wheel.parent, ignore_errors=True)
    for work in images_directory().glob(".bake-*"):
        if now - _modified_at(work) > HOUR:
            _remove_abandoned(work)


def _list_archives(recipe: str) -> list[Path]:
    """Return the archives of exactly this recipe: `redis-7.0` is not `redis-7.0-x`; the rest is one content."""
    return [
        path for path in images_directory().glob(f"{recipe}-*.tar") if "-" not in path.stem.removeprefix(f"{recipe}-")
    ]


def _remove_archive(archive: Path) -> None:
    """Remove an archive, unless a process uses it or has used it meanwhile."""
    try:
        lock = _lock_file(archive).open("r+")
    except FileNotFoundError:  # then no process uses it
        archive.unlink(missing_ok=True)
        return
    with lock, suppress(BlockingIOError):  # another process uses it now
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.time() - _last_use(archive) > HOUR:
            archive.unlink(missing_ok=True)
            # A process that waits for this very lock makes the image under a lock that no other sees: no harm but work.
            _lock_file(archive).unlink(missing_ok=True)


def _remove_abandoned(work: Path) -> None:
    """Remove a work directory, unless its maker lives."""
    with suppress(FileNotFoundError):
        handle = os.open(work, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(work, ignore_errors=True)
        except BlockingIOError:  # its maker lives
            return
        finally:
            os.close(handle)


def _lock_file(archive: Path) -> Path:
    return archive.with_name(f".{archive.name}.lock")


def _last_use(archive: Path) -> float:
    return max(_modified_at(archive), _modified_at(_lock_file(archive)))


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
