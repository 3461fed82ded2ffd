"""The faults of a lab on disk: a file each, one who writes at a time.

The lock is not the lab's own: `lab up` holds that for as long as it waits, perhaps for what a fault has broken.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from fleet.lab.faults.fault import Active
from fleet.lab.files import write


def directory(lab: Path) -> Path:
    return lab / "faults"


@contextmanager
def locked(lab: Path) -> Iterator[None]:
    """Work on the lab's faults alone."""
    directory(lab).mkdir(exist_ok=True)
    handle = os.open(directory(lab), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read(lab: Path) -> list[Active]:
    """All that are there, in the order in which they began."""
    found = []
    for path in directory(lab).glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # cleared meanwhile
            found.append(Active.from_json(orjson.loads(path.read_bytes())))
    return sorted(found, key=lambda active: active.id)


def keep(lab: Path, active: Active) -> None:
    write(directory(lab) / f"{active.id}.json", orjson.dumps(active.as_json(), option=orjson.OPT_INDENT_2))
    write(directory(lab) / "last", str(active.id))


def forget(lab: Path, active: Active) -> None:
    (directory(lab) / f"{active.id}.json").unlink(missing_ok=True)


def next_id(lab: Path) -> int:
    """A number that no fault of this lab has had: what one clears is never another one's."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int((directory(lab) / "last").read_text()) + 1
    return max((active.id for active in read(lab)), default=0) + 1
