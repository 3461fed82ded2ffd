"""What follows from Operations for one reconcile of their app: the next move of the one whose turn it is, and what is
said of all of them. Pure."""

from __future__ import annotations

from typing import TypeVar

from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.operations import verbs, whole
from fleet.kit.operations.operation import KIND, Operation, OperationProgress, OperationSpec
from fleet.kit.operations.queue import (
    answer,
    answer_behind,
    answer_waiting,
    find_current,
    forget,
    give_up,
    is_late,
    is_refusal,
    list_operations,
    make_status,
)
from fleet.kit.operations.verbs import Move, OperationObjection
from fleet.kit.order import Concern
from fleet.kit.step import Decision, SetStatus, State, Step, step
from fleet.model.app import App

A = TypeVar("A", bound=App)


def operate(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Take the operation whose turn it is one move further; None if there is none, or if it only waits.

    An operation that waits holds nothing up: what comes after this concern goes on.
    """
    current = find_current(list_operations(observation.world.all(KIND)))
    if current is None or observation.app.paused:
        return None
    move = next_move(observation, answers, current)
    begins = current.phase == "Pending" and move.phase == "Running"
    if not move.steps and not begins and move.progress in (None, current.progress):
        return None
    said = _answer(current, move, observation)
    return step(State.PROGRESSING, "Operating", f"{current}: {move.message}", *move.steps, said, after=0.5)


def report(
    observation: Observation[A], answers: Answers[A], concern: Concern | None, decision: Decision
) -> tuple[Step, ...]:
    """Return what is written about operations beside what was decided: who waits for what, what has ended, and what is
    forgotten."""
    operations, now = list_operations(observation.world.all(KIND)), observation.world.now
    current = find_current(operations)
    if current is None:
        return tuple(forget(operations, now))
    steps: list[Step] = []
    if concern is not Concern.OPERATIONS and (
        said := _answer_current(observation, answers, current, concern, decision)
    ):
        steps.append(said)
    return (*steps, *answer_behind(operations, current, now), *forget(operations, now))


def _answer_current(
    observation: Observation[A], answers: Answers[A], current: Operation, concern: Concern | None, decision: Decision
) -> SetStatus | None:
    now = observation.world.now
    if observation.app.paused:
        return answer_waiting(current, "Paused", "the app is paused", now)
    if concern is not None and list(Concern).index(concern) < list(Concern).index(Concern.OPERATIONS):
        if is_refusal(decision) and current.phase == "Pending":
            why = f"the app waits for a person: {decision.message}"
            return _answer(current, Move(why, "Refused", "Objection", objections=(decision.reason,)), observation)
        return answer_waiting(current, decision.reason, decision.message, now)
    move = next_move(observation, answers, current)
    is_asked = move.phase == "Running" and current.progress.target == observation.app.roll != ""
    if is_asked and concern is Concern.ROLL and is_refusal(decision):  # a roll, which waits for a person
        move = verbs.failed(decision.reason, decision.message)
    said = _answer(current, move, observation)
    return said if dict(current.status) != dict(said.status) else None


def next_move(observation: Observation[A], answers: Answers[A], operation: Operation) -> Move:
    """Return what becomes of the operation whose turn it is, where all that comes before operations is well."""
    spec = operation.spec
    if spec is None:
        words = "this release of the operator does not know what it asks for"
        return Move(words, "Refused", "Objection", objections=("unknown",))
    if operation.phase == "Running":
        move = _go_on(observation, answers, operation, spec)
        if move.phase == "Running" and is_late(operation, observation.world.now):
            return verbs.failed("TimedOut", f"it has not come to its end in time: {move.message}")
        return move
    objections = find_objections(observation, answers, spec)
    refusing = [objection for objection in objections if not objection.passes]
    if refusing or objections:
        against = refusing or objections
        names, why = tuple(one.name for one in against), "; ".join(one.message for one in against)
        if refusing:
            return Move(why, "Refused", "Objection", objections=names)
        return Move(f"it waits: {why}", "Pending", "Waiting", objections=names)
    begun = _begin(observation, spec)
    return begun if isinstance(begun, Move) else Move("it begins", progress=begun)


def find_objections(observation: Observation[A], answers: Answers[A], spec: OperationSpec) -> list[OperationObjection]:
    """Return what speaks against an operation now, by name."""
    if spec.do not in verbs.list_verbs(answers):
        return [OperationObjection("unsupported", f"{answers.name} has no {spec.do}")]
    match spec.do:
        case "switchover":
            return verbs.object_to_switchover(observation, spec)
        case "restart":
            return verbs.object_to_restart(observation, answers, spec)
        case "rebuild":
            return verbs.object_to_rebuild(observation, answers, spec)
        case "defragment":
            return verbs.wait_for_all(observation)
        case "roll":
            return whole.object_to_roll(observation, answers)
        case "backup":
            return whole.object_to_backup(observation)


def _begin(observation: Observation[A], spec: OperationSpec) -> OperationProgress | Move:
    match spec.do:
        case "switchover":
            return verbs.begin_switchover(observation, spec)
        case "restart":
            return verbs.begin_restart(observation, spec)
        case "rebuild":
            return verbs.begin_rebuild(observation, spec)
        case "roll":
            return whole.begin_roll(observation)
        case "defragment" | "backup":
            return OperationProgress()


def _go_on(observation: Observation[A], answers: Answers[A], operation: Operation, spec: OperationSpec) -> Move:
    match spec.do:
        case "switchover":
            return verbs.switch_over(observation, operation, spec)
        case "restart":
            return verbs.restart(observation, answers, operation, spec)
        case "rebuild":
            return verbs.rebuild(observation, answers, operation, spec)
        case "defragment":
            return verbs.defragment(observation, answers, operation)
        case "roll":
            return whole.roll(observation, answers, operation)
        case "backup":
            return whole.back_up(observation, operation)


def _answer(operation: Operation, move: Move, observation: Observation[A]) -> SetStatus:
    now, names = observation.world.now, move.objections
    if move.phase == "Pending" and is_late(operation, now):
        return answer(operation, give_up(operation, names[0] if names else "", move.message, now))
    waits_for = names[0] if names and move.phase in ("Pending", "Running") else ""
    status = make_status(
        operation,
        move.phase,
        move.reason or move.phase,
        move.message,
        now,
        waits_for=waits_for,
        objections=names,
        progress=move.progress,
        backup=move.backup,
    )
    return answer(operation, status)
