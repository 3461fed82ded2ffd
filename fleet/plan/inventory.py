"""The inventory: what a stack put into one cluster and may therefore delete there; and whether the stack is suspended.
Data only, stored by fleet.apply.

Labels can be copied by any user; the inventory cannot. Nothing is pruned that is not in it, and nothing whose UID is no
longer the recorded one.

A suspension says that a stack is left as it is until a user resumes it, and who suspended it, when and why. It is part
of the inventory, in the cluster itself: every reader of the cluster sees it, command line and service alike, and no
process has to remember it.
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
        """Return the suspension as it is stored: one line that people can read."""
        parts = (self.at, quote(self.by, safe=" @"), quote(self.reason, safe=" ,.;:!?#@/()'"))
        return "\t".join((*parts, "everywhere" if self.everywhere else "here"))

    @classmethod
    def read(cls, line: str) -> Suspension | None:
        """Return the suspension of a stored line; None when there is none. A line that was written by hand counts: it
        was written for a reason.
        """
        if "\t" not in line:
            return cls("", "somebody", line.strip()) if line.strip() else None
        at, by, reason, scope, *_ = [*line.split("\t"), "", "", ""]
        return cls(at, unquote(by) or "somebody", unquote(reason), scope != "here")


class Entry(NamedTuple):
    """One object of a stack. An empty `uid` is an intent: about to be created, with no proof yet that it was by us.

    A tuple, because thousands are read in every sync. Two that differ in what was `seen` only are equal: other writers
    change that all the time (the object's status), and it is no reason to write an inventory.
    """

    key: Key
    version: str  # the API version it was last applied with ("v1", "v1alpha1"), for reading it without discovery
    uid: str = ""
    hash: str = ""  # of the manifest that was last applied; tells "the file changed" from "the object changed"
    retain: bool = False  # leave the object running when it is no longer wanted
    protect: bool = False  # refuse to delete it
    after: tuple[Key, ...] = ()  # it was created after these, so it is deleted before them
    ignores: tuple[str, ...] = ()  # fields that were not ours to change: to drop one from git is a change of git's
    seen: str = ""  # the object's resourceVersion after it was applied: while it has that, it is untouched

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
    repository: str = ""  # whose stack it is; "": not recorded yet
    changed: str = field(default="", compare=False)  # when it was last written, by the server's clock; RFC 3339
    suspension: Suspension | None = None  # then nothing of the stack is changed here
    missing: tuple[Key, ...] = ()  # what the last sync was to create and could not; a look alone would not miss it

    def get(self, key: Key) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == key), None)

    def by_key(self) -> dict[Key, Entry]:
        return {entry.key: entry for entry in self.entries}

    def with_entries(self, entries: Iterable[Entry], *, revision: str | None = None) -> Inventory:
        """Return the inventory with these entries added, or put in the place of those with the same key."""
        merged = {**self.by_key(), **{entry.key: entry for entry in entries}}
        return replace(
            self,
            entries=tuple(merged[key] for key in sorted(merged)),
            revision=self.revision if revision is None else revision,
        )

    def without(self, keys: Iterable[Key], *, revision: str | None = None) -> Inventory:
        removed_keys = frozenset(keys)
        return replace(
            self,
            entries=tuple(entry for entry in self.entries if entry.key not in removed_keys),
            revision=self.revision if revision is None else revision,
        )
