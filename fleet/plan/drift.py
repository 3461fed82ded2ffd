"""Drift: where a cluster is not what git says, object by object and field by field, and who changed it. Pure.

It is a plan read the other way round: not what would be done, but what is different now. A step is drift if git says
what it said before and the cluster was changed: the inventory has the hash of what was last applied, and a wanted
object with that hash was not changed in git.
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
    DRIFT = "drift"  # git says what it said when it was applied: the cluster was changed
    PENDING = "pending"  # git has changed since it was applied
    CONFLICT = "conflict"  # it belongs to another owner


class FieldDifference(NamedTuple):
    """One field that differs; None stands for a field that does not exist. Secret values are redacted already."""

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
    what: str  # in words: "is gone", "is no longer declared in git"
    fields: tuple[FieldDifference, ...] = ()


def differences(plans: Iterable[Plan]) -> list[Difference]:
    """Return the differences of all plans, by stack, cluster and object."""
    all_differences = [
        difference for plan in plans for step in plan.steps for difference in _step_differences(plan, step)
    ]
    return sorted(all_differences, key=lambda difference: (difference.stack, difference.cluster, difference.key))


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
    """Return whether the step only puts back what git said already. Of a field that git ignored until now it said
    nothing.
    """
    if step.verb not in (Verb.CREATE, Verb.UPDATE) or step.entry is None:
        return False
    entry = plan.inventory.get(step.key)
    if entry is None or not entry.uid:
        return False
    return (entry.hash, entry.ignores) == (step.entry.hash, step.entry.ignores)


def _describe_step(step: Step, drift: bool) -> str:
    match step.verb:
        case Verb.CREATE:
            return "is gone" if drift else "is not there yet"
        case Verb.DELETE:
            return "is no longer declared in git"
        case Verb.FORGET:
            return f"is no longer declared in git: {step.reason}"
        case Verb.ADOPT:
            return f"is to be taken over: {step.reason}"
        case Verb.RECORD:
            return "has other options"
        case Verb.CONFLICT:
            return step.reason
        case _:
            return "was changed by others" if drift else "is older than git"


class DriftedError(PolicyError):
    """Drift in a stack that asks for drift to be reported and left alone."""


def drift_steps(plan: Plan) -> tuple[Step, ...]:
    """Return the steps that only put back what git said already."""
    return tuple(step for step in plan.steps if is_drift(plan, step))


def drift_error(plan: Plan) -> DriftedError | None:
    """Return the error for a plan that brings nothing new from git; None when it brings something, or
    nothing at all.
    """
    steps = drift_steps(plan)
    if not steps or len(steps) < sum(step.verb.writes for step in plan.steps):
        return None
    fields = ", ".join(change.path for change in steps[0].changes[:3])
    what = f"{steps[0].key} differs from git" + (f" ({fields})" if fields else ": it is gone")
    more = f" (and {len(steps) - 1} more)" if len(steps) > 1 else ""
    return DriftedError(f"{plan.cluster}: {what}{more}", hint='the stack says drift="report", so it is left as it is')
