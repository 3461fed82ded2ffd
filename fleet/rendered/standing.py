"""How a stack is in a cluster that nobody here can ask: by its record on the status branch. Pure.

A record counts only if it is about the commit in question, and about what the set really has: an agent that was told a
moment ago, or that is silent, is taken for being changed or for not looked at, never for well.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleet.git.status import Record
from fleet.rendered.model import RenderedSet
from fleet.sync.gates import UNSEEN, Standing

SETTLED = ("Synced", "Waiting", "Suspended")  # nothing is wrong


@dataclass(frozen=True, slots=True)
class Told:
    """What the set of a cluster says of one stack, as far as an answer can be about it."""

    revision: str  # the commit that the set is of
    content: str  # "": the stack is not in it
    waits: bool

    @classmethod
    def of(cls, found: RenderedSet, stack: str) -> Told:
        part = found.parts.get(stack)
        return cls(found.index.revision, part.content if part else "", stack in found.index.waiting)


def standing(record: Record | None, revision: str, told: Told | None = None) -> Standing:
    """At a commit. `told` is what an agent was told; None where the service or a person applies."""
    if record is None or record.wanted != revision or (told is not None and told.revision != revision):
        return UNSEEN
    if told is not None and not told.waits and record.content != told.content:
        return Standing(seen=True, begun=True, health=record.health)
    has_it = record.sync == "Synced" and record.revision == revision
    begun = record.sync == "Waiting" and told is not None and not told.waits
    return Standing(
        seen=True,
        applied=has_it,
        partly=begun,
        health=record.health,
        problem="" if record.sync in SETTLED else record.message or record.sync,
        since=datetime.fromisoformat(record.since.replace("Z", "+00:00")).timestamp(),
    )
