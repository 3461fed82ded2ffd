"""Where a stack may be taken back to by itself when a change makes a cluster ill, or why it may not. Pure.

It goes back one step: to the commit that was synced before, with other files of the stack, if it was well there. Not
further, for what was ill before is no place to go; and not from what is itself a way back, for two revisions that are
both ill would be exchanged for ever. All of that is in git: nobody has to remember it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import PolicyError

TRAILER = "Fleet-Rollback"


class NoWayBackError(PolicyError):
    """It stays as it is, and a person has to look."""


class OnItsWayError(NoWayBackError):
    """What it has is a way back already: it may take a moment until that is well."""


@dataclass(frozen=True, slots=True)
class Past:
    """A commit that was synced, as far as the stack is concerned."""

    revision: str
    was_well: bool  # it was applied wherever it was tried, and healthy by the engine's own word
    same: bool  # the stack stood on the same files as it does now


def way_back(past: Iterable[Past], *, is_rollback: bool) -> str:
    """The commit to go back to. `past` is newest first; `is_rollback`: what it has now is one already."""
    known = list(past)
    if is_rollback:
        raise OnItsWayError("what it has is a rollback already")
    at = next((number for number, one in enumerate(known) if not one.same), None)
    if at is None:
        raise NoWayBackError("there is nothing to go back to: no earlier commit of it is known that was synced")
    former = next((one for one in known[at:] if one.same and one.was_well), None)
    if former is not None:
        raise NoWayBackError(f"its files are as they were at {former.revision[:8]}, where it was well")
    if not known[at].was_well:
        raise NoWayBackError(f"there is nothing to go back to: it was not well at {known[at].revision[:8]} either")
    return known[at].revision


def trailer(stack: str, revision: str) -> str:
    """The last line of the commit, by which it is known for what it is."""
    return f"{TRAILER}: {stack} {revision}\n"


def is_rollback(message: str, stack: str) -> bool:
    return any(line.startswith(f"{TRAILER}: {stack} ") for line in message.splitlines())
