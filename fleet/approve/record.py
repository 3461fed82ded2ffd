"""What was approved, and the file that says it. Pure.

The file format, version 1 (`trees/<tree>/<id>.json`, or `forks/…` for what a fork proposes; UTF-8, ends with a newline;
`id` is a hash of the content but for the time):

    schema     "fleet.dev/approval/v1"; a reader that finds another version leaves the file alone
    fleet      release that made it: another may carry the same out in another way, so it is part of the approval
    tree       git's id of the repository's files (of the directory with fleet.toml) once the change is merged
    base       commit that it was compared with; "" when that was nothing at all
    head       commit that was merged for it
    subject    of the head, one line
    planHash   of the whole change, as the preview says it
    recorded   when, UTC, RFC 3339, whole seconds
    note       one line of whoever approved it, else ""
    changes    list, by stack and cluster, of
        stack, cluster
        objects    list of [group, kind, namespace, name, before, after, severity]

`before` and `after` are states (see `state`), "" where the object is not wanted. `severity` is the most that may happen
to the object. Nothing of an object's content is in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from fleet.errors import ConfigurationError, ResourceError
from fleet.git.status import clean, timestamp
from fleet.model.desired import Key
from fleet.plan.severity import Severity
from fleet.printable import count_noun
from fleet.version import __version__

SCHEMA = "fleet.dev/approval/v1"
MOST_BYTES = 16 * 1024 * 1024
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_HASH = re.compile(r"[0-9a-f]{64}")
_STATE = re.compile(
    r"(?:[0-9a-f]{20}(?:[0-9a-f]{44})?(?:\+protect)?(?:\+retain)?"
    r"(?:\+ignores-[0-9a-f]{20})?(?:\+adopt(?:-[0-9a-f]{20})?)?)?"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_PATH = re.compile(r"(?:trees|forks)/[0-9a-f]{40,64}/[0-9a-f]{20}\.json")
_SEVERITY = {one.name.lower(): one for one in Severity}


class Edge(NamedTuple):
    """One object from one state to another. The same state twice allows only what happens to it meanwhile."""

    stack: str
    cluster: str
    key: Key
    before: str
    after: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Record:
    tree: str
    base: str
    head: str
    edges: tuple[Edge, ...]
    plan_hash: str
    subject: str = ""
    note: str = ""
    version: str = __version__
    recorded: str = ""
    fork: bool = False  # who proposed it may not write to the repository; kept apart, and no part of what is approved

    @property
    def path(self) -> str:
        told = orjson.dumps({**_data(self), "recorded": ""})
        return f"{'forks' if self.fork else 'trees'}/{self.tree}/{hashlib.sha256(told).hexdigest()[:20]}.json"

    def at(self, now: datetime | None = None) -> Record:
        return replace(self, recorded=timestamp(now or datetime.now(UTC)))


def is_record_path(name: str) -> bool:
    return _PATH.fullmatch(name) is not None


def encode(record: Record) -> bytes:
    content = orjson.dumps(_data(record), option=orjson.OPT_APPEND_NEWLINE)
    if len(content) > MOST_BYTES:
        raise ResourceError(
            f"the change is too large to be recorded: {count_noun(len(record.edges), 'object')}",
            hint="approve it in parts",
        )
    return content


def decode(content: bytes, name: str) -> Record:
    """Read a file that anybody who can push may have written; `name` is its path."""
    try:
        data = orjson.loads(content if len(content) <= MOST_BYTES else b"")
        if data["schema"] != SCHEMA:
            raise ConfigurationError(f"{name} has the schema {clean(str(data['schema']), 60)!r}, not {SCHEMA!r}")
        record = Record(
            tree=_checked(_ID, data["tree"]),
            base=_checked(_ID, data["base"]) if data["base"] else "",
            head=_checked(_ID, data["head"]),
            edges=tuple(_edges(data["changes"])),
            plan_hash=_checked(_HASH, data["planHash"]),
            subject=clean(data["subject"], 200),
            note=clean(data["note"], 200),
            version=clean(data["fleet"], 60),
            recorded=_checked(_TIME, data["recorded"]),
            fork=name.startswith("forks/"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{name} is not a record of an approval: {clean(str(error), 100)}") from error
    if record.path != name:
        raise ConfigurationError(f"{name} is not the record that its name says")
    return record


def _data(record: Record) -> dict[str, Any]:
    pairs = groupby(sorted(record.edges), lambda edge: (edge.stack, edge.cluster))
    return {
        "schema": SCHEMA,
        "fleet": record.version,
        "tree": record.tree,
        "base": record.base,
        "head": record.head,
        "subject": clean(record.subject, 200),
        "planHash": record.plan_hash,
        "recorded": record.recorded,
        "note": clean(record.note, 200),
        "changes": [
            {
                "stack": stack,
                "cluster": cluster,
                "objects": [[*one.key, one.before, one.after, one.severity.name.lower()] for one in edges],
            }
            for (stack, cluster), edges in pairs
        ],
    }


def _edges(changes: Any) -> Iterable[Edge]:
    for pair in changes:
        stack, cluster = _text(pair["stack"]), _text(pair["cluster"])
        for group, kind, namespace, name, before, after, severity in pair["objects"]:
            key = Key(_text(group), _text(kind), _text(namespace), _text(name))
            yield Edge(
                stack, cluster, key, _checked(_STATE, before), _checked(_STATE, after), _SEVERITY[_text(severity)]
            )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 500:
        raise ValueError("a name is no text")
    return value


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text!r} is out of place")
    return text
