"""The record of what was approved, as a file, and how a change becomes one. Pure.

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
    note       one line of the user who approved it, else ""
    changes    list, by stack and cluster, of
        stack, cluster
        objects    list of [group, kind, namespace, name, before, after, severity]

`before` and `after` are states (see `state_of`), "" where the object is not wanted. `severity` is the most that may
happen to the object. Nothing of an object's content is in it.

A state is what git wants of an object as one text, to be recorded and compared: the hash of its manifest, and its
options. `protect` and `retain_on_delete` are part of it, for to take them away is what makes a later delete possible;
so is which fields are ignored, for to take one away is what changes it; and so are `adopt` and `take_from`, for objects
of other owners are taken over by them. An inventory does not know those: what is taken over is taken over. An object
that may be in the cluster under a former name has a state under each of its names.
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
from fleet.plan.effect import Severity, is_retained, severity_of
from fleet.plan.inventory import Entry
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
_SEVERITY = {level.name.lower(): level for level in Severity}


class ApprovedChange(NamedTuple):
    """One object's change from one state to another. The same state twice allows only what happens to it meanwhile."""

    stack: str
    cluster: str
    key: Key
    before: str
    after: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """The record of one approved change of the repository."""

    tree: str
    base: str
    head: str
    edges: tuple[ApprovedChange, ...]
    plan_hash: str
    subject: str = ""
    note: str = ""
    version: str = __version__
    recorded: str = ""
    fork: bool = False  # who proposed it may not write to the repository; kept apart, and no part of what is approved

    @property
    def path(self) -> str:
        content = orjson.dumps({**_record_data(self), "recorded": ""})
        return f"{'forks' if self.fork else 'trees'}/{self.tree}/{hashlib.sha256(content).hexdigest()[:20]}.json"

    def at(self, now: datetime | None = None) -> ApprovalRecord:
        return replace(self, recorded=timestamp(now or datetime.now(UTC)))


def is_record_path(name: str) -> bool:
    return _PATH.fullmatch(name) is not None


def encode(record: ApprovalRecord) -> bytes:
    content = orjson.dumps(_record_data(record), option=orjson.OPT_APPEND_NEWLINE)
    if len(content) > MOST_BYTES:
        raise ResourceError(
            f"the change is too large to be recorded: {count_noun(len(record.edges), 'object')}",
            hint="approve it in parts",
        )
    return content


def decode(content: bytes, name: str) -> ApprovalRecord:
    """Read a file that any user who can push may have written; `name` is its path.

    Raises ConfigurationError for what is no record, and for a record under another name.
    """
    try:
        data = orjson.loads(content if len(content) <= MOST_BYTES else b"")
        if data["schema"] != SCHEMA:
            raise ConfigurationError(f"{name} has the schema {clean(str(data['schema']), 60)!r}, not {SCHEMA!r}")
        record = ApprovalRecord(
            tree=_check_pattern(_ID, data["tree"]),
            base=_check_pattern(_ID, data["base"]) if data["base"] else "",
            head=_check_pattern(_ID, data["head"]),
            edges=tuple(_read_changes(data["changes"])),
            plan_hash=_check_pattern(_HASH, data["planHash"]),
            subject=clean(data["subject"], 200),
            note=clean(data["note"], 200),
            version=clean(data["fleet"], 60),
            recorded=_check_pattern(_TIME, data["recorded"]),
            fork=name.startswith("forks/"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{name} is not a record of an approval: {clean(str(error), 100)}") from error
    if record.path != name:
        raise ConfigurationError(f"{name} is not the record that its name says")
    return record


def _record_data(record: ApprovalRecord) -> dict[str, Any]:
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
                "objects": [
                    [*change.key, change.before, change.after, change.severity.name.lower()] for change in edges
                ],
            }
            for (stack, cluster), edges in pairs
        ],
    }


def _read_changes(changes: Any) -> Iterable[ApprovedChange]:
    for pair in changes:
        stack, cluster = _text(pair["stack"]), _text(pair["cluster"])
        for group, kind, namespace, name, before, after, level in pair["objects"]:
            key = Key(_text(group), _text(kind), _text(namespace), _text(name))
            yield ApprovedChange(
                stack,
                cluster,
                key,
                _check_pattern(_STATE, before),
                _check_pattern(_STATE, after),
                _SEVERITY[_text(level)],
            )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 500:
        raise ValueError("a name is no text")
    return value


def _check_pattern(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text!r} is out of place")
    return text


ABSENT = ""
_ADOPT = "+adopt"  # the last part of a state
SHORT = len(manifest_hash({}))  # letters of the hash in an inventory


def states_of(desired: Desired | None) -> dict[Key, str]:
    """Return the states of everything that a stack wants in one cluster."""
    wanted_objects = desired.objects if desired else ()
    former = {alias: state_of(obj, alias) for obj in wanted_objects for alias in obj.other_keys}
    return {**former, **{obj.key: state_of(obj, obj.key) for obj in wanted_objects}}


def state_of(obj: Object, key: Key) -> str:
    """Return the state of an object under one of its names."""
    manifest = obj.manifest
    if key != obj.key:
        names = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        manifest = {**manifest, "metadata": {**manifest["metadata"], **names}}
    retain = obj.retain_on_delete or is_retained(key, manifest)
    return manifest_digest(normalise(manifest)) + _flags(obj.protect, retain, obj.ignore_changes) + _adoption_flag(obj)


def state_of_entry(entry: Entry | None) -> str:
    """Return the state as the inventory knows it: with a short hash."""
    return entry.hash + _flags(entry.protect, entry.retain, entry.ignores) if entry else ABSENT


def short_state(text: str) -> str:
    """Return the form in which a state can be compared with that of an inventory."""
    digest, plus, flags = without_adoption(text).partition("+")
    return digest[:SHORT] + plus + flags


def without_adoption(text: str) -> str:
    """Return what a state says of an object that the stack has already: how it came to it does not matter any more."""
    return text.partition(_ADOPT)[0]


def _adoption_flag(obj: Object) -> str:
    if not obj.adopt:
        return ""
    return f"{_ADOPT}-{_names_digest(sorted(obj.take_from))}" if obj.take_from else _ADOPT


def _flags(protect: bool, retain: bool, ignores: tuple[str, ...]) -> str:
    ignored = f"+ignores-{_names_digest(ignores)}" if ignores else ""
    return ("+protect" if protect else "") + ("+retain" if retain else "") + ignored


def _names_digest(names: Sequence[str]) -> str:
    return sha256("\n".join(names).encode()).hexdigest()[:SHORT]


REPAIR = Severity.UPDATE  # what may happen to an object to make it again what was approved
UNTOUCHED = frozenset({Verb.UNCHANGED, Verb.CONFLICT})


def desired_by_placement(evaluation: Evaluation) -> dict[StackCluster, Desired]:
    return {(desired.stack, desired.cluster): desired for stack in evaluation.stacks for desired in stack.desired}


def changes_of_merge(
    before: Evaluation, after: Evaluation, shown: Iterable[Plan], live: Iterable[Plan] = ()
) -> list[ApprovedChange]:
    """Return what a merge changes, and the most that was shown to happen to each object.

    `shown` is of git, `live` of the clusters.
    """
    old, new = desired_by_placement(before), desired_by_placement(after)
    shown_plans = {(plan.stack, plan.cluster): plan for plan in shown}
    live_plans = {(plan.stack, plan.cluster): plan for plan in live}
    return [
        edge
        for pair in sorted({*old, *new})
        for edge in _changes_of_placement(
            pair, old.get(pair), new.get(pair), shown_plans.get(pair), live_plans.get(pair)
        )
    ]


def changes_of_plans(evaluation: Evaluation, plans: Iterable[Plan]) -> list[ApprovedChange]:
    """Return what plans for clusters do there: from what a cluster has to what git wants."""
    desired = desired_by_placement(evaluation)
    return [
        ApprovedChange(
            plan.stack,
            plan.cluster,
            step.key,
            state_of_entry(plan.inventory.get(step.key)),
            after.get(step.key, ABSENT),
            severity_of(step),
        )
        for plan in plans
        for after in [states_of(desired.get((plan.stack, plan.cluster)))]
        for step in plan.steps
        if step.verb not in UNTOUCHED
    ]


def _changes_of_placement(
    pair: StackCluster, before: Desired | None, after: Desired | None, shown: Plan | None, live: Plan | None
) -> Iterator[ApprovedChange]:
    old, new = _objects_by_name(before), _objects_by_name(after)
    most = _most_severe(shown, new)
    most_live = _most_severe(live, new)
    for key in sorted({*old, *new}):
        state_before, state_after = _state_or_absent(old, key), _state_or_absent(new, key)
        if old.get(key) != new.get(key) and state_before != state_after:
            yield ApprovedChange(
                *pair,
                key,
                state_before,
                state_after,
                max(most.get(key, Severity.NOTHING), most_live.pop(key, Severity.NOTHING)),
            )
    for key, level in sorted(most_live.items()):
        if level > REPAIR and live is not None:
            state_after = _state_or_absent(new, key)
            yield ApprovedChange(*pair, key, state_after or state_of_entry(live.inventory.get(key)), state_after, level)


def _objects_by_name(desired: Desired | None) -> dict[Key, Object]:
    """Return every object under each name that it may have in the cluster."""
    objects = desired.objects if desired else ()
    return {**{alias: obj for obj in objects for alias in obj.other_keys}, **{obj.key: obj for obj in objects}}


def _state_or_absent(objects: Mapping[Key, Object], key: Key) -> str:
    return state_of(objects[key], key) if key in objects else ABSENT


def _most_severe(plan: Plan | None, desired: Mapping[Key, Object]) -> dict[Key, Severity]:
    """Return the highest severity of each object, by the name that it has in the plan and by its others."""
    most: dict[Key, Severity] = {}
    for step in plan.steps if plan else ():
        if step.verb in UNTOUCHED:
            continue
        obj = desired.get(step.key)
        level = severity_of(step)
        if obj and obj.adopt and step.verb is Verb.CREATE:
            level = max(level, Severity.UPDATE)  # the preview said that it is taken over where it exists
        for key in (step.key, *((obj.key, *obj.other_keys) if obj else ())):
            most[key] = max(level, most.get(key, Severity.NOTHING))
    return most
