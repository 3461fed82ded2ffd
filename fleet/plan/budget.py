"""The deletion budget: how much one sync, or one commit that is served, may take away before a person has to say so.

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
    """What may be taken away from one cluster in one sync, and how much of one stack."""

    deletions: int = 10  # objects, of all stacks together
    share: float = 0.1  # of the objects that a stack has there; one is always within it

    @classmethod
    def override(cls, deletions: int) -> DeletionBudget:
        """What a person allows outright: so many objects, whosever they are."""
        return cls(deletions, share=1.0)

    def share_of(self, count: int) -> int:
        """How many of so many things may go."""
        return max(1, int(self.share * count))


def count_lost_objects(plan: Plan) -> int:
    """How many objects the stack loses."""
    return len(lost_objects(plan))


def lost_objects(plan: Plan) -> frozenset[Key]:
    """The objects that the stack loses."""
    retained = {entry.key for entry in plan.inventory.entries if entry.retain} if plan.leaving else frozenset[Key]()
    gone = plan.having(Verb.DELETE, Verb.FORGET) if plan.leaving else plan.having(Verb.DELETE)
    return frozenset(
        step.key for step in gone if step.key not in retained and not _is_operator_binding(step.key, plan.stack)
    )


def _is_operator_binding(key: Key, stack: str) -> bool:
    """The operator's rights in a namespace: nobody wrote that down, and it goes with the last app."""
    return key.kind == "RoleBinding" and key.name == f"{OPERATOR}-{stack}"


def check_budget(
    cluster: str, plans: Iterable[Plan], allowance: DeletionBudget, beside: Mapping[str, Set[Key]] = NO_LOSSES
) -> None:
    """Refuse the plans of one cluster that together take away more than is allowed.

    `beside` is what its stacks lose besides by the same commit, or have lost: an object counts once.
    """
    losses = dict(beside)
    for plan in plans:
        losses[plan.stack] = lost_objects(plan) | losses.get(plan.stack, frozenset())
    counts = {stack: len(objects) for stack, objects in losses.items()}
    total = sum(counts.values())
    if total <= allowance.deletions:
        return
    most = ", ".join(f"{stack} {count}" for stack, count in sorted(counts.items()) if count)
    raise PolicyError(
        f"{cluster}: the plan takes away {count_noun(total, 'object')} ({most}), the budget is {allowance.deletions}",
        hint=f"look at `fleet preview`; if it is right, allow it once with --allow-deletes {total}, "
        "or raise [budget] deletions in fleet.toml",
        field="budget.deletions",
    )


def check_share(plan: Plan, allowance: DeletionBudget) -> None:
    """Refuse a plan that takes away too much of one stack."""
    count = count_lost_objects(plan)
    had = sum(not entry.retain and not _is_operator_binding(entry.key, plan.stack) for entry in plan.inventory.entries)
    if count <= allowance.share_of(had):
        return
    raise PolicyError(
        f"{plan.cluster}: the plan takes away {count} of the {count_noun(had, 'object')} of {plan.stack}, "
        f"the budget is {allowance.share_of(had)}",
        hint=f"look at `fleet preview`; if it is right, allow it once with --allow-deletes {count}, "
        "or raise [budget] share in fleet.toml",
        field="budget.share",
    )
