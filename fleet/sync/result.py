"""Results, errors, gate protocol.

What became of a run, as data: per stack and cluster, and as the one error that it ends with, if any.

The errors that a change is which waits for its turn: nothing is wrong with it.

What a plan and its outcome amount to: an error or none. Pure.

Who is asked between the plan and the first write; `fleet.approval` has the one that asks for approvals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fleet.errors import ConflictError, FleetError, PolicyError, ResourceError
from fleet.plan import Plan, PlanView, Verb

if TYPE_CHECKING:
    from fleet.apply.steps import Outcome

PAST = {
    Verb.CREATE: "created",
    Verb.UPDATE: "updated",
    Verb.ADOPT: "adopted",
    Verb.DELETE: "deleted",
    Verb.FORGET: "forgotten",
    Verb.RECORD: "recorded",
}


class ObjectHealth(NamedTuple):
    kind: str
    namespace: str
    name: str
    state: str
    message: str = ""
    version: str = ""
    is_app: bool = False
    members: str = ""  # of an app: those that serve, of those that there should be
    available: str = ""  # of an app: "yes" or "no", "" when it is not known
    called: str = ""  # of an app: its name in git, where that is another one

    @property
    def title(self) -> str:
        name = self.called or self.name
        title = f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"
        return f"{title} ({self.name} in the cluster)" if self.called else title


@dataclass(frozen=True, slots=True)
class Result:
    """One stack in one cluster."""

    stack: str
    cluster: str
    plan: Plan | None = None
    problem: FleetError | None = None  # why it could not be synced
    unhealthy: FleetError | None = None  # synced, but not well in time
    health: str = "Unknown"
    objects: tuple[ObjectHealth, ...] = ()
    done: Counter[Verb] = field(default_factory=Counter)
    leaving: bool = False
    suspended: str = ""  # why it is left as it is
    held_back: int = 0  # changes that wait for the end of that

    @property
    def is_to_do(self) -> bool:
        """There is something to write, and nothing speaks against it so far."""
        return self.problem is None and self.plan is not None and not self.plan.empty

    @property
    def branch(self) -> PlanView:
        problem = str(self.problem) if self.problem else ""
        return PlanView(self.stack, self.cluster, self.plan, problem, self.suspended)

    @property
    def words(self) -> str:
        """ "2 created, 1 updated", or "no changes"."""
        if self.suspended and not self.problem:
            return self.suspended
        taken = self.plan.taken_from if self.plan and not self.problem else ""
        parts = [f"taken over from {taken}"] if taken else []
        parts += [f"{self.done[verb]} {word}" for verb, word in PAST.items() if self.done[verb]]
        return ", ".join(parts) or "no changes"


def exit_error(problems: Iterable[FleetError | None]) -> FleetError | None:
    """One error for all: itself when alone, else a summary with their common exit code, or 4 when they differ."""
    unique = list({str(problem): problem for problem in problems if problem}.values())
    if len(unique) <= 1:
        return unique[0] if unique else None
    codes = {problem.exit_code for problem in unique}
    error = ResourceError("\nerror: ".join(str(problem) for problem in unique))
    error.exit_code = codes.pop() if len(codes) == 1 else ResourceError.exit_code
    return error


class WaitingError(PolicyError):
    """It is not its turn yet. `who` waits is a stack, or an object of one."""

    def __init__(self, cluster: str, who: str, reason: str) -> None:
        super().__init__(f"{cluster}: {who} waits: {reason}", hint="the next sync goes on from there")

    @property
    def reason(self) -> str:
        """Without what it is about; of the message, from which secret values are taken out."""
        return self.message.partition(" waits: ")[2]


class PartiallyAppliedError(WaitingError):
    """It has begun, and what is left waits for the health of what was done."""


def refuse_forbidden(made: Plan) -> None:
    """What the repository's own rules forbid stops the whole stack: the rest of the commit may rely on it."""
    refused = [step for step in made.conflicts if step.refused]
    if refused:
        raise PolicyError(
            f"{made.cluster}: {refused[0].key} {refused[0].reason}",
            hint="nothing of the stack is changed there",
            source=refused[0].source if refused[0].source.file else None,
        )


def refuse_new_deletions(shown: Plan, made: Plan) -> None:
    """A plan that was shown is a promise: what is done may be less, and is never something more destructive."""
    more = {step.key for step in made.having(Verb.DELETE)} - {step.key for step in shown.having(Verb.DELETE)}
    if more:
        raise ConflictError(
            f"{made.cluster}: by now {min(more)} of {made.stack} would be deleted too, which was not shown",
            hint="somebody else changed the stack meanwhile; look at it again",
        )


def error_of(made: Plan, outcome: Outcome | None) -> FleetError | None:
    """The error that a plan or its outcome is, if it is one."""
    errors = [result.error for result in outcome.results if result.error] if outcome else []
    if errors:
        first = errors[0]
        if len(errors) > 1:
            first.message += f" (and {len(errors) - 1} more)"
        return first
    foreign = [step for step in made.conflicts if not step.refused]
    if foreign:
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        return ConflictError(f"{made.cluster}: {foreign[0].key} {foreign[0].reason}{more}", source=foreign[0].source)
    states = {result.state for result in outcome.results} if outcome else set()
    waiting = [result for result in outcome.results if result.state == "skipped"] if outcome else []
    if waiting and "pending" not in states:  # what is still being deleted holds up the rest, and is told by itself
        return PartiallyAppliedError(made.cluster, str(waiting[0].step.key), waiting[0].reason)
    return None


def objection_of(made: Plan) -> FleetError | None:
    """What a server has against the plan in a dry run, as an error."""
    refused = [step for step in made.steps if step.objection]
    if not refused:
        return None
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    source = refused[0].source if refused[0].source.file else None
    return ResourceError(f"{made.cluster} refuses {refused[0].key}: {refused[0].objection}{more}", source=source)


def count_done(outcome: Outcome) -> Counter[Verb]:
    return Counter(result.step.verb for result in outcome.results if result.state == "done")


class ApprovalCheck(Protocol):
    def judge(self, planned: Sequence[Result]) -> list[Result]:
        """The same results, with a problem where something must not be done. It may take its time, and reads only."""

    def check(self, plan: Plan) -> None:
        """Raise if a plan, made again under the Lease, must not be carried out."""
