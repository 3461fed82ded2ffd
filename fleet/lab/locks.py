"""One command at a time works on a lab, and one at a time chooses addresses and ports.

Locks are on directories and files that are there anyway or go with the lab, so nothing is left to clean up.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet.lab import paths
from fleet.lab import spec as specs


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Work on a lab alone; its directory is made for that."""
    directory = specs.directory(name)
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if directory.exists() and os.fstat(handle).st_ino == directory.stat().st_ino:
                yield
                return
        finally:
            os.close(handle)
        time.sleep(0.01)  # it was removed while this one waited


@contextmanager
def choosing() -> Iterator[None]:
    """Labs that start at once must not choose the same addresses or ports."""
    handle = os.open(paths.labs(), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def only_one(file: Path) -> Iterator[bool]:
    """Whether nobody else holds this file, and nobody will for as long as this lasts. Waits for nobody."""
    with file.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
