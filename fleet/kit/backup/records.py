"""What is known about a backup, in a file beside it. A backup without one, or with one that does not fit, is none.

Version 1 was written by releases that could back up etcd alone: it has no kind, and a `revision` that is a number.
Version 2 has a kind, and a `position` that is text. Of etcd it has the `revision` too, so that those releases, should
an operator be taken back to one, find and count what was made meanwhile.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from fleet.text import printable

LARGEST = 1 << 16  # bytes; a record has a few hundred
MOST = 1 << 63  # what a number in it is less than
FORMAT = 2
FIRST_KIND = "Etcd"  # of apps that version 1 is about, and of Jobs that do not say of which kind their app is


@dataclass(frozen=True, slots=True)
class Record:
    name: str  # of the file or directory
    app: str
    namespace: str
    identity: str  # tells this app from another of the same name; "" if it was not known
    time: str  # when it was complete, in UTC
    version: str  # of the app that wrote it
    data_version: str  # the series of the engine that the data is of, from the data itself
    position: str  # how far it reaches, in the engine's words: a revision, an LSN; "" if it does not say
    size: int
    checksum: str  # as algorithm:digest, of all of it; "" if the engine keeps it
    place: str  # where it is, in words for people
    kind: str  # of the app
    stored_size: int = 0  # what of a backup in a bucket is one object: packed, encrypted; 0 where files lie as they are
    stored_checksum: str = ""
    encryption_key: str = ""  # which key opens it, by a name that says nothing of the key; "" if it is not encrypted

    def write(self) -> str:
        """Return its text, in the format of today."""
        added = {field.name for field in fields(self) if field.default is not MISSING}
        said = {name: value for name, value in asdict(self).items() if value or name not in added}
        written: dict[str, Any] = {"format": FORMAT, **said}
        if self.kind == FIRST_KIND and re.fullmatch(r"[0-9]{1,18}", self.position):
            written["revision"] = int(self.position)
        return json.dumps(written, indent=2) + "\n"


def backup_name(app: str, time: datetime, version: str, suffix: str) -> str:
    return f"{app}-{time:%Y%m%dT%H%M%SZ}-{version}.{suffix}"


def part_of(app: str, job: str) -> str:
    """Return the name under which a backup is written, one for every try of a Job."""
    return f".{app}.{job}.part"


def timestamp(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def record_of(backup: Path) -> Path:
    """Return the file with a backup's record."""
    return backup.with_suffix(".json")


def read(text: str) -> Record | None:
    """Return the record of either version; None when it is none. Fields that a later release added are passed over."""
    try:
        written = json.loads(text)
        if "format" not in written:
            written = _upgrade(written)
        optional = {field.name: field.default for field in fields(Record) if field.default is not MISSING}
        values = {field.name: {**optional, **written}[field.name] for field in fields(Record)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    sizes = {name: values.pop(name) for name in ("size", "stored_size")}
    if not all(type(size) is int and 0 <= size < MOST for size in sizes.values()):
        return None
    if not all(isinstance(text, str) and text == printable(text) for text in values.values()):
        return None
    return Record(**sizes, **values)


def _upgrade(written: dict[str, Any]) -> dict[str, Any]:
    """Return a record of version 1 in the words of version 2; raise ValueError if its revision is none."""
    revision = written["revision"]
    if type(revision) is not int or not 0 <= revision < MOST:
        raise ValueError("a revision is a number")
    return {**written, "position": str(revision), "kind": FIRST_KIND}
