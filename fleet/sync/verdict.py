"""What a plan and its outcome amount to: an error or none. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleet.errors import ConflictError, FleetError, PolicyError, ResourceError
from fleet.plan.step import Plan, Verb
from fleet.sync.turn import PartlyWaitingError

if TYPE_CHECKING:
    from fleet.kube.result import Outcome


def refuse_forbidden(made: Plan) -> None:
    """What the repository's own rules forbid stops the whole stack: the rest of the commit may rely on it."""
    refused = [step for step in made.conflicts if step.refused]
    if refused:
        raise PolicyError(
            f"{made.cluster}: {refused[0].key} {refused[0].reason}",
            hint="nothing of the stack is changed there",
            source=refused[0].source if refused[0].source.file else None,
        )


def refuse_more(shown: Plan, made: Plan) -> None:
    """A plan that was shown is a promise: what is done may be less, and is never something more destructive."""
    more = {step.key for step in made.having(Verb.DELETE)} - {step.key for step in shown.having(Verb.DELETE)}
    if more:
        raise ConflictError(
            f"{made.cluster}: by now {min(more)} of {made.stack} would be deleted too, which was not shown",
            hint="somebody else changed the stack meanwhile; look at it again",
        )


def problem_of(made: Plan, outcome: Outcome | None) -> FleetError | None:
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
        return PartlyWaitingError(made.cluster, str(waiting[0].step.key), waiting[0].reason)
    return None


def objection_of(made: Plan) -> FleetError | None:
    """What a server has against the plan in a dry run, as an error."""
    refused = [step for step in made.steps if step.objection]
    if not refused:
        return None
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    source = refused[0].source if refused[0].source.file else None
    return ResourceError(f"{made.cluster} refuses {refused[0].key}: {refused[0].objection}{more}", source=source)


def done_of(outcome: Outcome) -> Counter[Verb]:
    return Counter(result.step.verb for result in outcome.results if result.state == "done")
