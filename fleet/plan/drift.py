"""Differences between git and cluster.

Where a cluster is not what git says, object by object and field by field, and whose doing it is. Pure.

It is a plan read the other way round: not what would be done, but what is different now.

Which of a plan's steps are drift: git says what it said before, and somebody changed the cluster. Pure.

The inventory has the hash of what was last applied; a wanted object with that hash was not changed in git.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from fleet.errors import PolicyError
from fleet.objects.desired import Key
from fleet.objects.redaction import REDACTED
from fleet.plan.step import Plan, Step, Verb


class DifferenceKind(StrEnum):
    DRIFT = "drift"  # git says what it said when it was applied: somebody changed the cluster
    PENDING = "pending"  # git has changed since it was applied
    CONFLICT = "conflict"  # it belongs to somebody else


class FieldDifference(NamedTuple):
    """None stands for a field that is not there. Secret values are masked already."""

    path: str
    git: Any
    cluster: Any

    def __str__(self) -> str:
        from fleet.plan.views.summary import short_value  # noqa: PLC0415 - only to print it

        if REDACTED in (self.git, self.cluster):
            return f"{self.path}: {REDACTED} differs"
        return f"{self.path}: git {short_value(self.git)}, cluster {short_value(self.cluster)}"


@dataclass(frozen=True, slots=True)
class Difference:
    stack: str
    cluster: str
    key: Key
    why: DifferenceKind
    what: str  # in words: "is gone", "is not in git any more"
    fields: tuple[FieldDifference, ...] = ()


def differences(plans: Iterable[Plan]) -> list[Difference]:
    """By stack, cluster and object."""
    found = [one for plan in plans for step in plan.steps for one in _step_differences(plan, step)]
    return sorted(found, key=lambda one: (one.stack, one.cluster, one.key))


def _step_differences(plan: Plan, step: Step) -> list[Difference]:
    if step.verb is Verb.UNCHANGED:
        return []
    drift = is_drift(plan, step)
    why = (
        DifferenceKind.CONFLICT
        if step.verb is Verb.CONFLICT
        else DifferenceKind.DRIFT
        if drift
        else DifferenceKind.PENDING
    )
    fields = tuple(FieldDifference(change.path, change.after, change.before) for change in step.changes)
    return [Difference(plan.stack, plan.cluster, step.key, why, _describe_step(step, drift), fields)]


def is_drift(plan: Plan, step: Step) -> bool:
    """Whether the step only puts back what git said already. Of a field that git ignored until now it said nothing."""
    if step.verb not in (Verb.CREATE, Verb.UPDATE) or step.entry is None:
        return False
    known = plan.inventory.get(step.key)
    if known is None or not known.uid:
        return False
    return (known.hash, known.ignores) == (step.entry.hash, step.entry.ignores)


def _describe_step(step: Step, drift: bool) -> str:
    match step.verb:
        case Verb.CREATE:
            return "is gone" if drift else "is not there yet"
        case Verb.DELETE:
            return "is not in git any more"
        case Verb.FORGET:
            return f"is not in git any more: {step.reason}"
        case Verb.ADOPT:
            return f"is to be taken over: {step.reason}"
        case Verb.RECORD:
            return "has other options"
        case Verb.CONFLICT:
            return step.reason
        case _:
            return "was changed by others" if drift else "is older than git"


class DriftedError(PolicyError):
    """The stack asks for drift to be reported and left alone."""


def drift_steps(made: Plan) -> tuple[Step, ...]:
    """The steps that only put back what git said already."""
    return tuple(step for step in made.steps if is_drift(made, step))


def drift_error(made: Plan) -> DriftedError | None:
    """The word about a plan that brings nothing new from git; None when it brings something, or nothing at all."""
    found = drift_steps(made)
    if not found or len(found) < sum(step.verb.writes for step in made.steps):
        return None
    fields = ", ".join(change.path for change in found[0].changes[:3])
    what = f"{found[0].key} differs from git" + (f" ({fields})" if fields else ": it is gone")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return DriftedError(f"{made.cluster}: {what}{more}", hint='the stack says drift="report", so it is left as it is')
