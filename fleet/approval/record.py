"""What was approved, as a file.

What was approved, and the file that says it. Pure.

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

What git wants of an object as one text, to be recorded and compared: the hash of its manifest, and its options.

`protect` and `retain_on_delete` are part of it, for to take them away is what makes a later delete possible; so is
which fields are ignored, for to take one away is what changes it; and so are `adopt` and `take_from`, for what belongs
to others is taken by them. Those an inventory does not know: what is taken is taken. An object that may be in the
cluster under a former name has a state under each of its names.

From what a preview compared, or from plans for clusters, to what is recorded about it. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from fleet.errors import ConfigurationError, ResourceError
from fleet.evaluate.result import Evaluation
from fleet.git.status_records import clean, timestamp
from fleet.objects.desired import Desired, Key, Object, StackCluster
from fleet.objects.normalise import manifest_digest, manifest_hash, normalise
from fleet.plan import Plan, Verb
from fleet.plan.effect import is_retained
from fleet.plan.inventory import Entry
from fleet.plan.severity import Severity, severity_of
from fleet.text import count_noun
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
        for group, kind, namespace, name, before, after, level in pair["objects"]:
            key = Key(_text(group), _text(kind), _text(namespace), _text(name))
            yield Edge(stack, cluster, key, _checked(_STATE, before), _checked(_STATE, after), _SEVERITY[_text(level)])


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 500:
        raise ValueError("a name is no text")
    return value


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text!r} is out of place")
    return text


ABSENT = ""
_ADOPT = "+adopt"  # the last part of a state
SHORT = len(manifest_hash({}))  # letters of the hash in an inventory


def states(desired: Desired | None) -> dict[Key, str]:
    """Of everything that a stack wants in one cluster."""
    objects = desired.objects if desired else ()
    former = {alias: state(one, alias) for one in objects for alias in one.other_keys}
    return {**former, **{one.key: state(one, one.key) for one in objects}}


def state(one: Object, key: Key) -> str:
    """Under one of its names."""
    manifest = one.manifest
    if key != one.key:
        named = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        manifest = {**manifest, "metadata": {**manifest["metadata"], **named}}
    retain = one.retain_on_delete or is_retained(key, manifest)
    return manifest_digest(normalise(manifest)) + _flags(one.protect, retain, one.ignore_changes) + _adoption(one)


def state_of_entry(entry: Entry | None) -> str:
    """As the inventory knows it: with a short hash."""
    return entry.hash + _flags(entry.protect, entry.retain, entry.ignores) if entry else ABSENT


def short(text: str) -> str:
    """The form in which a state can be compared with that of an inventory."""
    digest, plus, flags = owned(text).partition("+")
    return digest[:SHORT] + plus + flags


def owned(text: str) -> str:
    """What a state says of an object that the stack has already: how it came to it does not matter any more."""
    return text.partition(_ADOPT)[0]


def _adoption(one: Object) -> str:
    if not one.adopt:
        return ""
    return f"{_ADOPT}-{_named(sorted(one.take_from))}" if one.take_from else _ADOPT


def _flags(protect: bool, retain: bool, ignores: tuple[str, ...]) -> str:
    ignored = f"+ignores-{_named(ignores)}" if ignores else ""
    return ("+protect" if protect else "") + ("+retain" if retain else "") + ignored


def _named(words: Sequence[str]) -> str:
    return sha256("\n".join(words).encode()).hexdigest()[:SHORT]


REPAIR = Severity.UPDATE  # what may happen to an object to make it again what was approved
UNTOUCHED = frozenset({Verb.UNCHANGED, Verb.CONFLICT})


def pairs(evaluation: Evaluation) -> dict[StackCluster, Desired]:
    return {(one.stack, one.cluster): one for stack in evaluation.stacks for one in stack.desired}


def merged(before: Evaluation, after: Evaluation, shown: Iterable[Plan], live: Iterable[Plan] = ()) -> list[Edge]:
    """What a merge changes, and the most that was shown to happen to each object, in git and (`live`) in clusters."""
    old, new = pairs(before), pairs(after)
    changed = {(one.stack, one.cluster): one for one in shown}
    there = {(one.stack, one.cluster): one for one in live}
    return [
        edge
        for pair in sorted({*old, *new})
        for edge in _of_pair(pair, old.get(pair), new.get(pair), changed.get(pair), there.get(pair))
    ]


def planned(evaluation: Evaluation, plans: Iterable[Plan]) -> list[Edge]:
    """What plans for clusters do there: from what a cluster has to what git wants."""
    wanted = pairs(evaluation)
    return [
        Edge(
            plan.stack,
            plan.cluster,
            step.key,
            state_of_entry(plan.inventory.get(step.key)),
            after.get(step.key, ABSENT),
            severity_of(step),
        )
        for plan in plans
        for after in [states(wanted.get((plan.stack, plan.cluster)))]
        for step in plan.steps
        if step.verb not in UNTOUCHED
    ]


def _of_pair(
    pair: StackCluster, before: Desired | None, after: Desired | None, shown: Plan | None, live: Plan | None
) -> Iterator[Edge]:
    old, new = _names(before), _names(after)
    most = _most(shown, new)
    there = _most(live, new)
    for key in sorted({*old, *new}):
        was, will = _state(old, key), _state(new, key)
        if old.get(key) != new.get(key) and was != will:
            yield Edge(*pair, key, was, will, max(most.get(key, Severity.NOTHING), there.pop(key, Severity.NOTHING)))
    for key, found in sorted(there.items()):
        if found > REPAIR and live is not None:
            will = _state(new, key)
            yield Edge(*pair, key, will or state_of_entry(live.inventory.get(key)), will, found)


def _names(desired: Desired | None) -> dict[Key, Object]:
    """Every object under each name that it may have in the cluster."""
    objects = desired.objects if desired else ()
    return {**{alias: one for one in objects for alias in one.other_keys}, **{one.key: one for one in objects}}


def _state(objects: Mapping[Key, Object], key: Key) -> str:
    return state(objects[key], key) if key in objects else ABSENT


def _most(plan: Plan | None, wanted: Mapping[Key, Object]) -> dict[Key, Severity]:
    """By the name that the object has in the plan, and by its others."""
    found: dict[Key, Severity] = {}
    for step in plan.steps if plan else ():
        if step.verb in UNTOUCHED:
            continue
        one = wanted.get(step.key)
        level = severity_of(step)
        if one and one.adopt and step.verb is Verb.CREATE:
            level = max(level, Severity.UPDATE)  # it was said to be taken over where it is there already
        for key in (step.key, *((one.key, *one.other_keys) if one else ())):
            found[key] = max(level, found.get(key, Severity.NOTHING))
    return found
