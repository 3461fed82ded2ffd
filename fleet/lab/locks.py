"""Locks between commands: for the work on a lab, for the choice of addresses and ports, and for an entry of the cache.

Locks are on directories and files that exist anyway or go with the lab, so nothing is left to clean up.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet.lab import spec as specs


@contextmanager
def lock_lab(name: str) -> Iterator[None]:
    """Work on a lab alone; the lab's directory is made if it does not exist."""
    directory = specs.lab_directory(name)
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        with lock_existing_lab(name) as exists:
            if exists:
                yield
                return
        time.sleep(0.01)  # it was removed while this one waited


@contextmanager
def lock_existing_lab(name: str) -> Iterator[bool]:
    """Work on a lab alone if it exists, and yield whether it does.

    Another command may have removed it while this one waited for the lock.
    """
    directory = specs.lab_directory(name)
    try:
        handle = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield _is_same(handle, directory)
    finally:
        os.close(handle)


def _is_same(handle: int, directory: Path) -> bool:
    """Return whether an open directory is still the one with this path."""
    try:
        return os.path.samestat(os.fstat(handle), directory.stat())
    except FileNotFoundError:
        return False


@contextmanager
def lock_addresses() -> Iterator[None]:
    """Choose addresses and ports alone: labs that start at once must not choose the same.

    The lock is one for the machine, wherever each lab keeps its state. The caller makes its choice visible to other
    commands (in a file, or by binding) before it releases the lock.
    """
    handle = os.open("/", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def lock_cache_entry(target: Path) -> Iterator[None]:
    """Make an entry of the cache alone; a process that waited finds the entry made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def try_lock(file: Path) -> Iterator[bool]:
    """Take the lock of a file without waiting, and yield whether it is held now; it is held while the block lasts."""
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
