"""Which of a plan's steps are drift: git says what it said before, and somebody changed the cluster. Pure.

The inventory has the hash of what was last applied; a wanted object with that hash was not changed in git.
"""

from __future__ import annotations

from fleet.errors import PolicyError
from fleet.plan import Plan, Step
from fleet.plan.difference import is_drift


class DriftedError(PolicyError):
    """The stack asks for drift to be reported and left alone."""


def drifted(made: Plan) -> tuple[Step, ...]:
    """The steps that only put back what git said already."""
    return tuple(step for step in made.steps if is_drift(made, step))


def only_drift(made: Plan) -> DriftedError | None:
    """The word about a plan that brings nothing new from git; None when it brings something, or nothing at all."""
    found = drifted(made)
    if not found or len(found) < sum(step.verb.writes for step in made.steps):
        return None
    fields = ", ".join(change.path for change in found[0].changes[:3])
    what = f"{found[0].key} differs from git" + (f" ({fields})" if fields else ": it is gone")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return DriftedError(f"{made.cluster}: {what}{more}", hint='the stack says drift="report", so it is left as it is')
