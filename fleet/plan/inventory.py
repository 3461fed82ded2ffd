"""What a stack owns in a cluster; suspension.

That a stack is left as it is until somebody says otherwise: who said so, when and why.

It stands in the stack's inventory, in the cluster itself: whoever looks at the cluster sees it, command line and
service alike, and no process has to remember it.

What a stack put into one cluster and may therefore take out of it again: data only, stored by fleet.kube.

Labels can be copied by anybody; the inventory cannot. Nothing is pruned that is not in it, and nothing whose UID
is no longer the recorded one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import quote, unquote

from fleet.objects.desired import Key


@dataclass(frozen=True, slots=True)
class Suspension:
    at: str  # UTC, RFC 3339, whole seconds
    by: str
    reason: str = ""
    everywhere: bool = True  # also in clusters of the fleet that have no such word yet

    def __str__(self) -> str:
        since = f" since {self.at}" if self.at else ""
        return f"suspended{since} by {self.by}" + (f": {self.reason}" if self.reason else "")

    def line(self) -> str:
        """As it is stored: one line, in which people read what it says."""
        words = (self.at, quote(self.by, safe=" @"), quote(self.reason, safe=" ,.;:!?#@/()'"))
        return "\t".join((*words, "everywhere" if self.everywhere else "here"))

    @classmethod
    def read(cls, line: str) -> Suspension | None:
        """None when there is none. What was written by hand counts: nobody says so for nothing."""
        if "\t" not in line:
            return cls("", "somebody", line.strip()) if line.strip() else None
        at, by, reason, scope, *_ = [*line.split("\t"), "", "", ""]
        return cls(at, unquote(by) or "somebody", unquote(reason), scope != "here")


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
