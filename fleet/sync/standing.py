"""How a stack is in a cluster, as the gates ask it, from what a look or a pass saw there. Pure."""

from __future__ import annotations

from datetime import datetime

from fleet.git.status import Record
from fleet.sync.gates import Standing
from fleet.sync.outcome import Result
from fleet.sync.turn import PartlyWaitingError, WaitingError
from fleet.sync.verdict import problem_of


def before_it(result: Result, health: str) -> Standing:
    """After the plan and before anything is done; `health` is that of what is there."""
    problem = result.problem or (problem_of(result.plan, None) if result.plan else None)
    return Standing(
        seen=True,
        applied=problem is None and not result.held_back and (result.plan is None or result.plan.empty),
        health=health,
        problem=problem.message if problem else "",
    )


def after_it(result: Result) -> Standing:
    """After a pass, whatever came of it."""
    waits = isinstance(result.problem, WaitingError)
    return Standing(
        seen=True,
        applied=result.problem is None and not result.held_back,
        partly=isinstance(result.problem, PartlyWaitingError),
        health=result.health,
        problem="" if waits or not result.problem else result.problem.message,
    )


def well_since(result: Result, told: Record | None, now: float) -> float:
    """Since when a stack that was found well is so, by what others wrote; now, where they did not."""
    changed = changed_at(result)
    if told is None or told.health != result.health or told.sync != "Synced" or changed is None:
        return now
    return max(_seconds(told.since), changed)


def changed_at(result: Result) -> float | None:
    """When the stack was last changed there, by the inventory that was looked at."""
    text = result.plan.inventory.changed if result.plan else ""
    return _seconds(text) if text else None


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
