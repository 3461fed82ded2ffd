"""One command at a time works on a lab, one at a time chooses addresses and ports, and one makes a thing of the cache.

Locks are on directories and files that are there anyway or go with the lab, so nothing is left to clean up.
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
def locked(name: str) -> Iterator[None]:
    """Work on a lab alone; its directory is made for that."""
    directory = specs.directory(name)
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        with if_there(name) as there:
            if there:
                yield
                return
        time.sleep(0.01)  # it was removed while this one waited


@contextmanager
def if_there(name: str) -> Iterator[bool]:
    """Work on a lab alone if there is one, and whether there is: another one may have removed it meanwhile."""
    directory = specs.directory(name)
    try:
        handle = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield _is(handle, directory)
    finally:
        os.close(handle)


def _is(handle: int, directory: Path) -> bool:
    """Whether an open directory is still the one with this path."""
    try:
        return os.path.samestat(os.fstat(handle), directory.stat())
    except FileNotFoundError:
        return False


@contextmanager
def choosing() -> Iterator[None]:
    """Labs that start at once must not choose the same addresses or ports, wherever each keeps its state.

    So the lock is one for the machine, and what was chosen has to be seen by others when it is given back.
    """
    handle = os.open("/", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def making(target: Path) -> Iterator[None]:
    """Processes that need the same thing of the cache make it once; who waited finds it there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
