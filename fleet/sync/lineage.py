"""Whether a commit goes on from what the clusters have: a history that was rewritten is refused, unless told.

Every inventory has the commit that last changed its stack. A commit that would change the stack again has that one in
its history; if not, somebody replaced the past, and what would be undone was never looked at as a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fleet.errors import ConfigurationError, PolicyError
from fleet.git.depth import HINT
from fleet.git.repository import Repository
from fleet.plan import Plan


def applied_by(plans: Iterable[Plan]) -> dict[str, Plan]:
    """The commits on which the plans build, each with one that would change what it did."""
    return {
        plan.inventory.revision: plan
        for plan in plans
        if not plan.empty and plan.inventory.revision and plan.inventory.repository == plan.repository
    }


def check_lineage(
    git: Repository,
    revision: str,
    plans: Iterable[Plan],
    *,
    back: bool = False,
    deepened: Callable[[Repository], Repository] = lambda git: git,
) -> None:
    """Refuse a commit that does not go on from those before it; `back`: a person named an earlier one.

    A shallow clone may not have what would prove it: it is `deepened` then, and refused if that is not enough.
    """
    before = applied_by(plans)
    before.pop(revision, None)
    if git.outside(before, revision):
        git = deepened(git)
    for one in git.outside(before, revision):
        if back and not git.outside([revision], one):
            continue
        plan = before[one]
        if git.shallow:
            raise ConfigurationError(
                f"whether {revision[:8]} goes on from {one[:8]}, which was applied to {plan.stack} on {plan.cluster}, "
                "cannot be told: this clone is shallow",
                hint=HINT,
            )
        raise PolicyError(
            f"{revision[:8]} does not go on from {one[:8]}, which was applied to {plan.stack} on {plan.cluster}: "
            "the history was rewritten",
            hint="was it pushed by force, or is this another branch? If it is meant, say --allow-rewritten once",
        )
