"""Results of a run as commands report them: text, data, and the error that the command ends with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fleet.cli.options import is_colour_wanted

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.sync.result import Result


def collect_errors(results: Sequence[Result]) -> list[FleetError]:
    """Return the errors of results and of their plans; a conflict in a plan is one."""
    from fleet.sync.result import error_of, objection_of

    errors = [result.problem or (error_of(result.plan, None) if result.plan else None) for result in results]
    errors += [objection_of(result.plan) for result in results if result.plan and not result.problem]
    return [error for error in errors if error]


def finish(errors: Sequence[FleetError], changes: int = 0) -> int:
    """Return the exit code 0; raise the errors as one, else a ChangesError if there are changes nobody expected."""
    from fleet.sync.result import exit_error

    error = exit_error(errors)
    if error:
        raise error
    if changes:
        raise make_changes_error(changes)
    return 0


def make_changes_error(count: int) -> FleetError:
    """Return the error for changes where the user said --expect-no-changes."""
    from fleet.errors import ChangesError
    from fleet.text import count_noun

    return ChangesError(f"{count_noun(count, 'change')} where none were expected")


def format_results(results: Sequence[Result]) -> str:
    """Return a line per result: a mark, the stack and its cluster, what was done, and the health."""
    from fleet.plan.views.escape import escape_line
    from fleet.plan.views.text import paint
    from fleet.sync.result import WaitingError

    colour = is_colour_wanted()
    lines = []
    for result in results:
        waits = isinstance(result.problem, WaitingError)
        mark, code = (
            ("✗", 31)
            if (result.problem and not waits) or result.unhealthy
            else ("✓", 32)
            if not waits and (result.health == "Healthy" or result.leaving)
            else ("•", 33)
        )
        outcome = escape_line(", ".join(_describe_outcome(result)))
        lines.append(f"{paint(mark, code, colour)} {result.stack} on {result.cluster}: {outcome}")
    return "\n".join(lines) or "nothing is placed on any cluster"


def _describe_outcome(result: Result) -> list[str]:
    """Describe a result in few words; the errors themselves are printed at the end."""
    from fleet.sync.result import WaitingError

    parts = [] if result.problem and not result.done else [result.words]
    if isinstance(result.problem, WaitingError):
        return [*parts, f"waiting: {result.problem.reason}"]
    if result.problem:
        return [*parts, "failed"]
    if result.leaving:
        return [*parts, "no longer placed there and left running"]
    if not result.objects:
        return parts
    unhealthy = next((item for item in result.objects if item.state == result.health != "Healthy"), None)
    reason = f" ({unhealthy.title}: {unhealthy.message})" if unhealthy and unhealthy.message else ""
    return [*parts, result.health.lower() + reason]


def results_data(results: Sequence[Result]) -> dict[str, Any]:
    """Return results and their plans as `-o json` prints them."""
    from fleet.plan.views.json import plan_data

    return {
        "results": [
            {
                "stack": result.stack,
                "cluster": result.cluster,
                "done": {verb.value: count for verb, count in sorted(result.done.items())},
                "health": result.health,
                "error": str(result.problem or result.unhealthy) if result.problem or result.unhealthy else None,
                "objects": [
                    {
                        "kind": item.kind,
                        "namespace": item.namespace,
                        "name": item.name,
                        "health": item.state,
                        "message": item.message,
                    }
                    for item in result.objects
                    if item.state != "Healthy" or item.is_app
                ],
            }
            for result in results
        ],
        "plan": plan_data([result.branch for result in results]),
    }
