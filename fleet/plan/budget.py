"""The deletion budget: how much one sync, or one commit that is served, may delete before a user has to allow it.

Two limits hold at once. A stack may lose one object in a cluster, or a share of what it has there if that is more; all
stacks together may lose so many. Objects that are forgotten because their cluster leaves count too: a selector with a
typing error takes away as much as a deleted file. Objects forgotten by their own options, or gone already, do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from fleet.errors import PolicyError
from fleet.names import OPERATOR
from fleet.objects.desired import Key
from fleet.plan.step import Plan, Verb
from fleet.text import count_noun

UNLIMITED = 1_000_000_000
NO_LOSSES: Mapping[str, Set[Key]] = {}


@dataclass(frozen=True, slots=True)
class DeletionBudget:
    """The number of objects that may be deleted from one cluster in one sync, and the share of one stack."""

    deletions: int = 10  # objects, of all stacks together
    share: float = 0.1  # of the objects that a stack has there; one is always within it

    @classmethod
    def override(cls, deletions: int) -> DeletionBudget:
        """Return the budget that a user allows outright: so many objects, whichever stack they are of."""
        return cls(deletions, share=1.0)

    def share_of(self, count: int) -> int:
        """Return how many of so many objects may be deleted."""
        return max(1, int(self.share * count))


def count_lost_objects(plan: Plan) -> int:
    """Return how many objects the stack loses."""
    return len(lost_objects(plan))


def lost_objects(plan: Plan) -> frozenset[Key]:
    """Return the keys of the objects that the stack loses."""
    retained = {entry.key for entry in plan.inventory.entries if entry.retain} if plan.leaving else frozenset[Key]()
    removals = plan.having(Verb.DELETE, Verb.FORGET) if plan.leaving else plan.having(Verb.DELETE)
    return frozenset(
        step.key for step in removals if step.key not in retained and not _is_operator_binding(step.key, plan.stack)
    )


def _is_operator_binding(key: Key, stack: str) -> bool:
    """Return whether the object is the operator's rights in a namespace: no user wrote it down, and it goes with the
    last app.
    """
    return key.kind == "RoleBinding" and key.name == f"{OPERATOR}-{stack}"


def check_budget(
    cluster: str, plans: Iterable[Plan], budget: DeletionBudget, beside: Mapping[str, Set[Key]] = NO_LOSSES
) -> None:
    """Refuse the plans of one cluster that together delete more than is allowed, with PolicyError.

    `beside` is what its stacks lose besides by the same commit, or have lost: an object counts once.
    """
    losses = dict(beside)
    for plan in plans:
        losses[plan.stack] = lost_objects(plan) | losses.get(plan.stack, frozenset())
    counts = {stack: len(objects) for stack, objects in losses.items()}
    total = sum(counts.values())
    if total <= budget.deletions:
        return
    shares = ", ".join(f"{stack} {count}" for stack, count in sorted(counts.items()) if count)
    raise PolicyError(
        f"{cluster}: the plan takes away {count_noun(total, 'object')} ({shares}), the budget is {budget.deletions}",
        hint=f"look at `fleet preview`; if it is right, allow it once with --allow-deletes {total}, "
        "or raise [budget] deletions in fleet.toml",
        field="budget.deletions",
    )


def check_share(plan: Plan, budget: DeletionBudget) -> None:
    """Refuse a plan that deletes too much of one stack, with PolicyError."""
    count = count_lost_objects(plan)
    had = sum(not entry.retain and not _is_operator_binding(entry.key, plan.stack) for entry in plan.inventory.entries)
    if count <= budget.share_of(had):
        return
    raise PolicyError(
        f"{plan.cluster}: the plan takes away {count} of the {count_noun(had, 'object')} of {plan.stack}, "
        f"the budget is {budget.share_of(had)}",
        hint=f"look at `fleet preview`; if it is right, allow it once with --allow-deletes {count}, "
        "or raise [budget] share in fleet.toml",
        field="budget.share",
    )
