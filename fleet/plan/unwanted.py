"""The step for an object that the stack once made and wants no longer: deleted only if nothing speaks against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.model.desired import Key
from fleet.plan.effect import delete_effect
from fleet.plan.inventory import Entry
from fleet.plan.ownership import Whose, ownership
from fleet.plan.retention import holds_data
from fleet.plan.step import Step, Verb


def step_for(stack: str, entry: Entry, live: dict[str, Any] | None, first: tuple[Key, ...]) -> Step:
    """`first` are the keys that go before it."""
    if live is None:
        return Step(Verb.UNCHANGED, entry.key)  # gone already; only the inventory does not know yet
    metadata = live["metadata"]
    step = Step(Verb.FORGET, entry.key, uid=metadata["uid"], resource_version=metadata.get("resourceVersion"))
    whose = ownership(stack, entry, live)
    if whose.whose is not Whose.OURS:
        return step._replace(reason=f"belongs to {whose.owner or 'somebody else'} now; left alone")
    if "deletionTimestamp" in metadata:
        return step._replace(verb=Verb.UNCHANGED, entry=entry, reason="is being deleted")
    if entry.retain:
        return step._replace(reason=f"{'holds data' if holds_data(entry.key) else 'retain_on_delete'}; left running")
    if entry.protect:
        reason = "is protected: set protect=False and sync before taking it out of the stack"
        return step._replace(verb=Verb.CONFLICT, reason=reason, refused=True)
    return step._replace(verb=Verb.DELETE, depends_on=first, effect=delete_effect(entry.key, live))


def in_turn(entries: Iterable[Entry]) -> dict[Key, tuple[Key, ...]]:
    """For each key: what is deleted before it, being created after it or living in it."""
    first: dict[Key, list[Key]] = defaultdict(list)
    unwanted = {entry.key for entry in entries}
    for entry in entries:
        inside = Key("", "Namespace", "", entry.key.namespace)
        for key in {*entry.after, inside} & unwanted:
            first[key].append(entry.key)
    return {key: tuple(sorted(others)) for key, others in first.items()}


def held_back(step: Step, entries: Mapping[Key, Entry]) -> Step:
    """What is to be deleted may be what is still in use while its successor cannot be made."""
    if step.verb is not Verb.DELETE:
        return step
    reason = "to be deleted, but not while the stack has a conflict"
    return step._replace(verb=Verb.UNCHANGED, entry=entries[step.key], reason=reason, effect=None)
