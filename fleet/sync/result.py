"""Results of a run as data, its errors, and the protocol of the approval check. Pure.

A result says what happened to one stack in one cluster; `exit_error` makes the one error that the run ends with, if
any. A change that must wait has an error too (WaitingError), though it is not a failure. The approval check is asked
between the plan and the first write; `fleet.approval` has the one that asks for change approvals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fleet.errors import ConflictError, FleetError, PolicyError, ResourceError
from fleet.plan import Plan, PlanView, Verb

if TYPE_CHECKING:
    from fleet.apply.steps import StepOutcome

PAST = {
    Verb.CREATE: "created",
    Verb.UPDATE: "updated",
    Verb.ADOPT: "adopted",
    Verb.DELETE: "deleted",
    Verb.FORGET: "forgotten",
    Verb.RECORD: "recorded",
}


class ObjectHealth(NamedTuple):
    """Health of one object, for an app with what its operator reports."""

    kind: str
    namespace: str
    name: str
    state: str
    message: str = ""
    version: str = ""
    is_app: bool = False
    members: str = ""  # of an app: how many serve, of how many git wants
    available: str = ""  # of an app: "yes" or "no"; "" if not known
    called: str = ""  # of an app: its name in git, if that differs; else ""

    @property
    def title(self) -> str:
        name = self.called or self.name
        title = f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"
        return f"{title} ({self.name} in the cluster)" if self.called else title


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one stack in one cluster."""

    stack: str
    cluster: str
    plan: Plan | None = None
    problem: FleetError | None = None  # why it could not be synced
    unhealthy: FleetError | None = None  # synced, but not healthy in time
    health: str = "Unknown"
    objects: tuple[ObjectHealth, ...] = ()
    done: Counter[Verb] = field(default_factory=Counter)
    leaving: bool = False
    suspended: str = ""  # why the stack is left as it is; "" if it is not suspended
    held_back: int = 0  # number of changes that wait for the end of the suspension

    @property
    def is_to_do(self) -> bool:
        """Return whether the plan has something to write and nothing prevents that so far."""
        return self.problem is None and self.plan is not None and not self.plan.empty

    @property
    def branch(self) -> PlanView:
        problem = str(self.problem) if self.problem else ""
        return PlanView(self.stack, self.cluster, self.plan, problem, self.suspended)

    @property
    def words(self) -> str:
        """Return what was done, as "2 created, 1 updated" or "no changes"."""
        if self.suspended and not self.problem:
            return self.suspended
        taken = self.plan.taken_from if self.plan and not self.problem else ""
        parts = [f"taken over from {taken}"] if taken else []
        parts += [f"{self.done[verb]} {past}" for verb, past in PAST.items() if self.done[verb]]
        return ", ".join(parts) or "no changes"


def exit_error(problems: Iterable[FleetError | None]) -> FleetError | None:
    """Return one error for all: itself if alone, else a summary with their common exit code, or 4 if they differ."""
    unique = list({str(problem): problem for problem in problems if problem}.values())
    if len(unique) <= 1:
        return unique[0] if unique else None
    codes = {problem.exit_code for problem in unique}
    error = ResourceError("\nerror: ".join(str(problem) for problem in unique))
    error.exit_code = codes.pop() if len(codes) == 1 else ResourceError.exit_code
    return error


class WaitingError(PolicyError):
    """Error for a change that must wait, which is not a failure. `who` waits: a stack, or an object of one."""

    def __init__(self, cluster: str, who: str, reason: str) -> None:
        super().__init__(f"{cluster}: {who} waits: {reason}", hint="the next sync goes on from there")

    @property
    def reason(self) -> str:
        """Return the reason without its subject, taken from the message because that has secret values removed."""
        return self.message.partition(" waits: ")[2]


class PartiallyAppliedError(WaitingError):
    """Error for a change that has begun and whose other steps wait for the health of what was done."""


def refuse_forbidden(plan: Plan) -> None:
    """Raise PolicyError if a step breaks the repository's rules.

    This stops the whole stack: the other steps may rely on the refused one.
    """
    refused = [step for step in plan.conflicts if step.refused]
    if refused:
        raise PolicyError(
            f"{plan.cluster}: {refused[0].key} {refused[0].reason}",
            hint="nothing of the stack is changed there",
            source=refused[0].source if refused[0].source.file else None,
        )


def refuse_new_deletions(shown: Plan, plan: Plan) -> None:
    """Raise ConflictError if the new plan deletes what the shown one does not.

    A plan that was shown is a promise: the sync may do less, and never something more destructive.
    """
    more = {step.key for step in plan.having(Verb.DELETE)} - {step.key for step in shown.having(Verb.DELETE)}
    if more:
        raise ConflictError(
            f"{plan.cluster}: by now {min(more)} of {plan.stack} would be deleted too, which was not shown",
            hint="somebody else changed the stack meanwhile; look at it again",
        )


def error_of(plan: Plan, outcome: StepOutcome | None) -> FleetError | None:
    """Return the error for a plan with conflicts, or with failed or waiting steps in its outcome; else None."""
    errors = [result.error for result in outcome.results if result.error] if outcome else []
    if errors:
        first = errors[0]
        if len(errors) > 1:
            first.message += f" (and {len(errors) - 1} more)"
        return first
    conflicts = [step for step in plan.conflicts if not step.refused]
    if conflicts:
        more = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
        return ConflictError(
            f"{plan.cluster}: {conflicts[0].key} {conflicts[0].reason}{more}", source=conflicts[0].source
        )
    states = {result.state for result in outcome.results} if outcome else set()
    waiting = [result for result in outcome.results if result.state == "skipped"] if outcome else []
    if waiting and "pending" not in states:  # pending deletions hold up the other steps, and are reported as such
        return PartiallyAppliedError(plan.cluster, str(waiting[0].step.key), waiting[0].reason)
    return None


def objection_of(plan: Plan) -> FleetError | None:
    """Return the error for what an API server objects to in a dry run of the plan, or None."""
    refused = [step for step in plan.steps if step.objection]
    if not refused:
        return None
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    source = refused[0].source if refused[0].source.file else None
    return ResourceError(f"{plan.cluster} refuses {refused[0].key}: {refused[0].objection}{more}", source=source)


def count_done(outcome: StepOutcome) -> Counter[Verb]:
    """Return how many steps of each verb were carried out."""
    return Counter(result.step.verb for result in outcome.results if result.state == "done")


class PlanApproval(Protocol):
    """Check between the plan and the first write."""

    def judge(self, planned: Sequence[Result]) -> list[Result]:
        """Return the same results, with a problem where a change may not be made. It may take long, and only reads."""

    def check(self, plan: Plan) -> None:
        """Raise an error if a plan that was made again under the Lease may not be carried out."""
