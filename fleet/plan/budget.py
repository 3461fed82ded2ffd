"""The deletion budget: how much one sync may take away from one cluster before a person has to say so.

Objects that are forgotten because their cluster leaves count too: a selector with a typing error takes away as much as
a deleted file. Objects forgotten by their own options, or gone already, do not.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.errors import PolicyError
from fleet.plan.step import Plan, Verb


def taken_away(plan: Plan) -> int:
    return len(plan.having(Verb.DELETE, Verb.FORGET) if plan.leaving else plan.having(Verb.DELETE))


def check_budget(cluster: str, plans: Iterable[Plan], limit: int) -> None:
    """Refuse the plans of one cluster that together take away more than `limit` objects."""
    counts = {plan.stack: taken_away(plan) for plan in plans}
    total = sum(counts.values())
    if total <= limit:
        return
    most = ", ".join(f"{stack} {count}" for stack, count in sorted(counts.items()) if count)
    raise PolicyError(
        f"{cluster}: the plan takes away {total} objects ({most}), the budget is {limit}",
        hint=f"look at `fleet preview`; if it is right, allow it once with --allow-deletions {total}, "
        "or raise [budget] deletions in fleet.toml",
        field="budget.deletions",
    )
