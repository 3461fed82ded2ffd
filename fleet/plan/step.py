"""Verb, Step, Plan and the hash of a plan: what is to be done, as data that is shown, stored, approved, and carried out
by fleet.apply.

A plan carries everything that an applier needs and decides everything that can be decided beforehand, so the applier
looks at verbs and preconditions only.

The same steps on the same objects with the same content give the same hash, anywhere, any time. Live values, UIDs and
resource versions are not in it, so a plan that was approved is still that plan when an unrelated field of a live object
has changed meanwhile. The release of fleet is in it: another one may carry the same objects out in another way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from fleet.errors import Source
from fleet.objects.desired import Key
from fleet.objects.normalise import manifest_digest
from fleet.plan.effect import Effect
from fleet.plan.inventory import Entry, Inventory
from fleet.version import __version__

if TYPE_CHECKING:
    from fleet.objects.compare import Change

NOWHERE = Source("")


class Verb(StrEnum):
    CREATE = "create"  # certainly absent: apply; an object that turns up meanwhile is a conflict
    UPDATE = "update"  # ours and different: apply with metadata.uid
    DELETE = "delete"  # ours and no longer wanted: delete with UID and resourceVersion preconditions
    ADOPT = "adopt"  # there before us and wanted with `adopt`: apply with metadata.uid, taking fields over
    FORGET = "forget"  # no longer ours: leave it running, drop it from the inventory
    RECORD = "record"  # the object stays as it is; what the inventory says about it (protect, retain) does not
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"  # not ours, or protected: never touched; `reason` says whose it is

    @property
    def writes(self) -> bool:
        """Return whether the verb sends anything about the object itself to the cluster."""
        return self in WRITING


WRITING = frozenset({Verb.CREATE, Verb.UPDATE, Verb.DELETE, Verb.ADOPT})


class Step(NamedTuple):
    """One object, one verb. A tuple: a sync makes one for every object, changed or not."""

    verb: Verb
    key: Key
    manifest: dict[str, Any] | None = None  # to apply; None where nothing is applied
    uid: str | None = None  # of the live object: the precondition of update, adopt and delete
    resource_version: str | None = None  # of the live object: the second precondition of delete
    changes: tuple[Change, ...] = ()
    meanings: tuple[str, ...] = ()  # what the changes mean for an app: "scale 3 → 5", "restarts 3 pods"
    reason: str = ""  # why this verb, where it does not go without saying
    source: Source = NOWHERE
    depends_on: tuple[Key, ...] = ()  # for deletes: keys to be deleted before this one
    entry: Entry | None = None  # what the inventory holds once this is done; the applier fills in the uid
    refused: bool = False  # a conflict with the repository's own rules (protect), not with another owner
    effect: Effect | None = None  # what it does to users, where that is more than the verb says: see `effect_of`
    drift: bool = False  # not of the change that is looked at: the cluster differs already from what git says
    take_from: tuple[str, ...] = ()  # of an adoption: managers that lose their fields first
    objection: str = ""  # what the server said to a dry run of it, "" if it had nothing against it

    def __repr__(self) -> str:
        return f"Step({self.verb}, {self.key})"  # a manifest may hold a secret, and a repr ends up anywhere


@dataclass(frozen=True, slots=True)
class Plan:
    """One stack on one cluster. `inventory` is the one that was read: what holds before the first step."""

    stack: str
    cluster: str
    steps: tuple[Step, ...]
    inventory: Inventory
    revision: str = ""  # goes into the inventory with the first write
    leaving: bool = False  # the stack is no longer placed on this cluster: nothing is wanted, everything is forgotten
    repository: str = ""  # whose stack it is from the first write on; "": as before
    applied: frozenset[str] = field(default=frozenset(), compare=False)  # commits that its neighbours there have
    _empty: bool | None = field(default=None, init=False, repr=False, compare=False)  # found out once

    def having(self, *verbs: Verb) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.verb in verbs)

    @property
    def target(self) -> Inventory:
        """Return the inventory once every step is done; uids of objects still to be created are empty."""
        empty = replace(self.inventory, cluster=self.cluster, entries=(), repository=self.owner, missing=())
        return empty.with_entries(self._entries(self.inventory.by_key()).values())

    def _entries(self, before: dict[Key, Entry]) -> dict[Key, Entry]:
        """Return what is recorded once every step is done: of what is in conflict, what was."""
        conflicts = (before.get(step.key) for step in self.steps if step.verb is Verb.CONFLICT)
        after = {entry.key: entry for entry in conflicts if entry}
        for step in self.steps:
            if step.entry and step.verb is not Verb.CONFLICT:
                after[step.entry.key] = step.entry
        return after

    @property
    def owner(self) -> str:
        return self.repository or self.inventory.repository

    @property
    def taken_from(self) -> str:
        """Return the repository whose stack it was until now, "" if it was no other's."""
        return self.inventory.repository if self.inventory.repository != self.owner else ""

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to send to the cluster at all, the inventory included."""
        empty = self._empty
        if empty is None:
            empty = self._is_empty()
            object.__setattr__(self, "_empty", empty)
        return empty

    def _is_empty(self) -> bool:
        if (
            self.inventory.cluster != self.cluster
            or self.taken_from
            or self.inventory.missing
            or any(step.verb in WRITING for step in self.steps)
        ):
            return False
        before = self.inventory.by_key()
        return self._entries(before) == before

    @property
    def conflicts(self) -> tuple[Step, ...]:
        return self.having(Verb.CONFLICT)


def plan_hash(plans: Iterable[Plan]) -> str:
    """Return the hash of one plan, or of all plans of a run together."""
    content = sorted(
        [
            plan.stack,
            plan.cluster,
            step.verb.value,
            str(step.key),
            manifest_digest(step.manifest) if step.manifest else "",
            # A later delete that was not approved begins with taking these away.
            [step.entry.protect, step.entry.retain, *step.take_from] if step.entry else [],
        ]
        for plan in plans
        for step in plan.steps
        if step.verb is not Verb.UNCHANGED
    )
    return hashlib.sha256(orjson.dumps([__version__, content])).hexdigest()
