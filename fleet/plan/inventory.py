"""What a stack put into one cluster and may therefore take out of it again: data only, stored by fleet.kube.

Labels can be copied by anybody; the inventory cannot. Nothing is pruned that is not in it, and nothing whose UID
is no longer the recorded one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fleet.model.desired import Key
from fleet.plan.suspension import Suspension


class Entry(NamedTuple):
    """One object of a stack. An empty `uid` is an intent: about to be created, with no proof yet that it was by us.

    A tuple, because thousands are read in every sync. Two that differ in what was `seen` only are equal: what others do
    to an object (its status) moves that all the time, and is no reason to write an inventory.
    """

    key: Key
    version: str  # the API version it was last applied with ("v1", "v1alpha1"), for reading it without discovery
    uid: str = ""
    hash: str = ""  # of the manifest that was last applied; tells "the file changed" from "the object changed"
    retain: bool = False  # leave the object running when it is no longer wanted
    protect: bool = False  # refuse to delete it
    after: tuple[Key, ...] = ()  # it was created after these, so it is deleted before them
    ignores: tuple[str, ...] = ()  # fields that were not ours to change: to drop one from git is a change of git's
    seen: str = ""  # the object's resourceVersion after it was applied: while it has that, nobody has touched it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self[:-1] == other[:-1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:-1])


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every object of one stack in one cluster, ordered by key."""

    stack: str
    cluster: str
    revision: str = ""  # of the sync that last changed something here
    entries: tuple[Entry, ...] = ()
    repository: str = ""  # whose stack it is; "": recorded by nobody yet
    changed: str = field(default="", compare=False)  # when it was last written, by the server's clock; RFC 3339
    suspension: Suspension | None = None  # then nothing of the stack is changed here
    missing: tuple[Key, ...] = ()  # what the last sync was to create and could not; a look alone would not miss it

    def get(self, key: Key) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == key), None)

    def by_key(self) -> dict[Key, Entry]:
        return {entry.key: entry for entry in self.entries}

    def with_entries(self, entries: Iterable[Entry], *, revision: str | None = None) -> Inventory:
        """The inventory with these added, or put in the place of those with the same key."""
        merged = {**self.by_key(), **{entry.key: entry for entry in entries}}
        return replace(
            self,
            entries=tuple(merged[key] for key in sorted(merged)),
            revision=self.revision if revision is None else revision,
        )

    def without(self, keys: Iterable[Key], *, revision: str | None = None) -> Inventory:
        gone = frozenset(keys)
        return replace(
            self,
            entries=tuple(entry for entry in self.entries if entry.key not in gone),
            revision=self.revision if revision is None else revision,
        )
