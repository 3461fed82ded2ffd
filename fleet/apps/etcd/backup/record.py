"""What is known about a backup, in a file beside it. A backup without one, or with one that does not fit, is none."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

from fleet.text import printable

LARGEST = 1 << 16  # bytes; a record has a few hundred
MOST = 1 << 63  # what a number in it is less than


@dataclass(frozen=True, slots=True)
class Record:
    name: str  # of the file
    app: str
    namespace: str
    identity: str  # tells this app from another of the same name; "" if it was not known
    time: str  # when it was complete, in UTC
    version: str  # of the app that wrote it
    data_version: str  # the series of etcd that the data is of, from the data itself
    revision: int  # how far it reaches
    size: int
    checksum: str  # as algorithm:digest, of the whole file
    place: str  # where it is, in words for people

    def write(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def file_name(app: str, time: datetime, version: str) -> str:
    return f"{app}-{time:%Y%m%dT%H%M%SZ}-{version}.db"


def timestamp(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def record_of(snapshot: Path) -> Path:
    """The file with a snapshot's record."""
    return snapshot.with_suffix(".json")


def read(text: str) -> Record | None:
    """None when it is not a record; fields that a later release added are passed over."""
    try:
        found = json.loads(text)
        known = {field.name: found[field.name] for field in fields(Record)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    numbers = known["revision"], known["size"]
    texts = [value for name, value in known.items() if name not in ("revision", "size")]
    if not all(type(one) is int and 0 <= one < MOST for one in numbers):
        return None
    if not all(isinstance(one, str) and one == printable(one) for one in texts):
        return None
    return Record(**known)
