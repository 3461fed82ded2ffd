"""Whose turn it is among the Operations of an app, what is said of those that wait, and which are forgotten. Pure.

One is under way at a time, the oldest first. Whatever becomes of the app, each comes to an end: one that has waited
for too long is refused, and one that takes too long has failed. What has ended is kept for a while, and not any number.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

from fleet.kit.observe.world import is_leaving
from fleet.kit.operations.operation import (
    ENDED,
    KIND,
    Object,
    Operation,
    OperationProgress,
    OperationStatus,
    Phase,
    read_operation,
    seconds_since,
)
from fleet.kit.status import LastBackup
from fleet.kit.step import Decision, Delete, SetStatus, State, Step

MOST_WAITING = 20  # operations of an app; what comes after them is refused
MOST_KEPT = 10  # that have ended
KEPT_SECONDS = 7 * 86400.0
WAITING_SECONDS = 3600.0  # until one that nothing lets begin is refused: its reason may be long gone
RUNNING_SECONDS = {
    "switchover": 180.0,
    "restart": 3600.0,
    "backup": 2 * 3600.0,
    "defragment": 6 * 3600.0,
    "roll": 86400.0,
    "rebuild": 86400.0,
}
LONGEST = 1000  # characters of a message


def list_operations(found: Iterable[Object]) -> list[Operation]:
    """Return the Operations of an app that nobody takes away, the oldest first."""
    read = [read_operation(one) for one in found if one["kind"] == KIND and not is_leaving(one)]
    return sorted(read, key=lambda operation: (operation.created, operation.name))


def find_current(operations: Sequence[Operation]) -> Operation | None:
    """Return the one whose turn it is: that which has begun, else the oldest that waits; None if all have ended."""
    open_ones = [operation for operation in operations if not operation.has_ended]
    running = [operation for operation in open_ones if operation.phase == "Running"]
    return next(iter([*running, *open_ones]), None)


def is_late(operation: Operation, now: datetime.datetime) -> bool:
    """Tell whether it has waited, or has been under way, for too long."""
    if operation.phase != "Running":
        return seconds_since(operation.created, now) > WAITING_SECONDS
    verb = operation.spec.do if operation.spec is not None else ""
    return seconds_since(operation.begun, now) > RUNNING_SECONDS.get(verb, WAITING_SECONDS)


def make_status(
    operation: Operation,
    phase: Phase,
    reason: str,
    message: str,
    now: datetime.datetime,
    *,
    waits_for: str = "",
    objections: Sequence[str] = (),
    progress: OperationProgress | None = None,
    backup: LastBackup | None = None,
) -> dict[str, Any]:
    """Return the status of an operation in Kubernetes' form; its times are kept once they are written."""
    known, time = progress or operation.progress, now.strftime("%Y-%m-%dT%H:%M:%SZ")
    begun = operation.begun or (time if phase == "Running" else "")
    made = OperationStatus(
        phase=phase,
        reason=reason,
        message=message[:LONGEST],
        waits_for=waits_for or None,
        objections=tuple(objections),
        begun=begun or None,
        ended=time if phase in ENDED else None,
        observed_generation=int(operation.object["metadata"].get("generation", 0)),
        before=known.before or None,
        target=known.target or None,
        done=known.done,
        job=known.job or None,
        backup=backup,
    )
    return made.model_dump(by_alias=True, exclude_none=True, mode="json")


def answer(operation: Operation, status: dict[str, Any]) -> SetStatus:
    """Return the step that writes a status, with an event for a phase that is new."""
    phase = str(status["phase"])
    reason = f"Operation{phase}" if phase != operation.phase else ""
    return SetStatus(operation.object, status, reason, f"{operation}: {status['message']}" if reason else "")


def answer_waiting(operation: Operation, reason: str, why: str, now: datetime.datetime) -> SetStatus | None:
    """Return what is said of an operation that cannot go on for now; None if that is said already.

    It is given up when that lasts.
    """
    if is_late(operation, now):
        return answer(operation, give_up(operation, reason, why, now))
    if operation.phase == "Running":
        status = make_status(operation, "Running", "Waiting", why, now, waits_for=reason)
    else:
        status = make_status(operation, "Pending", "Waiting", f"it waits: {why}", now, waits_for=reason)
    return answer(operation, status) if dict(operation.status) != status else None


def give_up(operation: Operation, waits_for: str, why: str, now: datetime.datetime) -> dict[str, Any]:
    """Return the status of an operation that took too long."""
    if operation.phase == "Running":
        message = f"it has not come to its end in time: {why}"
        return make_status(operation, "Failed", "TimedOut", message, now, waits_for=waits_for)
    message = f"it could not begin within {WAITING_SECONDS / 60:.0f} minutes: {why}"
    return make_status(operation, "Refused", "Expired", message, now, waits_for=waits_for)


def refuse(operation: Operation, name: str, why: str, now: datetime.datetime) -> SetStatus:
    """Return the answer that refuses an operation for one objection."""
    return answer(operation, make_status(operation, "Refused", "Objection", why, now, objections=[name]))


def answer_behind(operations: Sequence[Operation], current: Operation | None, now: datetime.datetime) -> list[Step]:
    """Return what is said of those whose turn has not come."""
    steps: list[Step] = []
    waiting = [operation for operation in operations if not operation.has_ended and operation is not current]
    for position, operation in enumerate(waiting):
        if position >= MOST_WAITING:
            steps.append(refuse(operation, "queue-full", f"{MOST_WAITING} operations of this app wait already", now))
        elif (said := answer_waiting(operation, "Operation", f"{current} is before it", now)) is not None:
            steps.append(said)
    return steps


def answer_all(operations: Sequence[Operation], decision: Decision, now: datetime.datetime) -> list[Step]:
    """Return what is said of all operations of an app of which nothing could be observed."""
    current = find_current(operations)
    if current is None:
        return forget(operations, now)
    said = answer_waiting(current, decision.reason, decision.message, now)
    return [*([said] if said else []), *answer_behind(operations, current, now), *forget(operations, now)]


def refuse_without_app(operations: Sequence[Operation], app: str, now: datetime.datetime) -> list[Step]:
    """Return what is said of operations of an app that there is not."""
    steps: list[Step] = [
        refuse(operation, "no-app", f"there is no {app} in this namespace", now)
        for operation in operations
        if not operation.has_ended
    ]
    return [*steps, *forget(operations, now)]


def forget(operations: Sequence[Operation], now: datetime.datetime) -> list[Step]:
    """Return the steps that delete what has ended and is too old, or one too many."""
    ended = [operation for operation in operations if operation.has_ended]
    ended.sort(key=lambda operation: (str(operation.status.get("ended") or ""), operation.name), reverse=True)
    return [
        Delete(operation.object)
        for position, operation in enumerate(ended)
        if position >= MOST_KEPT or seconds_since(str(operation.status.get("ended") or ""), now) > KEPT_SECONDS
    ]


def is_refusal(decision: Decision) -> bool:
    """Tell whether an app waits for a person, so that nothing that is asked for can begin either."""
    return decision.state is State.BLOCKED
