"""What is to be done, as data: the plan that is shown, stored, approved, and carried out by fleet.kube.

A plan carries everything that an applier needs and decides everything that can be decided beforehand, so the
applier looks at verbs and preconditions only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.errors import Source
from fleet.model.desired import Key
from fleet.plan.inventory import Entry, Inventory

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
        """Whether it sends anything about the object itself to the cluster."""
        return self in (Verb.CREATE, Verb.UPDATE, Verb.DELETE, Verb.ADOPT)


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs; None stands for a field that is not there. Values of secrets are redacted already."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Step:
    verb: Verb
    key: Key
    manifest: dict[str, Any] | None = field(default=None, repr=False)  # to apply; None where nothing is applied
    uid: str | None = None  # of the live object: the precondition of update, adopt and delete
    resource_version: str | None = None  # of the live object: the second precondition of delete
    changes: tuple[Change, ...] = ()
    meanings: tuple[str, ...] = ()  # what the changes mean for an app: "scale 3 → 5", "restarts 3 pods"
    reason: str = ""  # why this verb, where it does not go without saying
    source: Source = NOWHERE
    depends_on: tuple[Key, ...] = ()  # for deletes: keys to be deleted before this one
    entry: Entry | None = None  # what the inventory holds once this is done; the applier fills in the uid
    refused: bool = False  # a conflict with the repository's own rules (protect), not with another owner


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

    def having(self, *verbs: Verb) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.verb in verbs)

    @property
    def target(self) -> Inventory:
        """The inventory once every step is done; uids of objects still to be created are empty."""
        kept = {step.key for step in self.steps if step.verb is Verb.CONFLICT}
        old = tuple(entry for entry in self.inventory.entries if entry.key in kept)
        fresh = (step.entry for step in self.steps if step.entry and step.verb is not Verb.CONFLICT)
        empty = Inventory(self.stack, self.cluster, self.inventory.revision, repository=self.owner)
        return empty.with_entries([*old, *fresh])

    @property
    def owner(self) -> str:
        return self.repository or self.inventory.repository

    @property
    def taken_from(self) -> str:
        """The repository whose stack it was until now, "" if it was nobody else's."""
        return self.inventory.repository if self.inventory.repository != self.owner else ""

    @property
    def empty(self) -> bool:
        """Nothing to send to the cluster at all, the inventory included."""
        same = (
            self.inventory.cluster == self.cluster
            and not self.taken_from
            and self.target.entries == self.inventory.entries
        )
        return same and not any(step.verb.writes for step in self.steps)

    @property
    def conflicts(self) -> tuple[Step, ...]:
        return self.having(Verb.CONFLICT)
