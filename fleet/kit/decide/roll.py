"""Another configuration or version: how it goes through the members, is given up, or reaches first those that cannot
start without it. How one roll advances is in `fleet.kit.workload.roll`. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

from fleet.kit.decide.health import is_settling
from fleet.kit.decide.replace import find_corrupt
from fleet.kit.driver import Refusal
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, ledger_of, set_of
from fleet.kit.observe.world import container, template_of
from fleet.kit.step import Decision, State, blocked, step
from fleet.kit.workload import revive, roll
from fleet.kit.workload.roll import Rolling, StopObjection
from fleet.kit.workload.template import mark_of
from fleet.model.app import App

A = TypeVar("A", bound=App)
NO_MAJORITY = StopObjection("no-majority", "the others are no majority")


def plan_roll(observation: Observation[A], answers: Answers[A]) -> Rolling | Refusal:
    """Return what a roll to what git wants would be, or why there is no way to it."""
    wanted = answers.desired_template(observation)
    if isinstance(wanted, Refusal):
        return wanted
    return Rolling(
        world=observation.world,
        found=set_of(observation),
        pods=observation.pods,
        container=observation.role.container,
        wanted=wanted.template,
        mark=mark_of(wanted.template),
        what=wanted.change,
        healthy=observation.is_healthy,
        leader=observation.leader if "lead" in answers.acts else None,
        objections=lambda pod: find_objections(observation, answers, pod),
        patience=lambda pod: patience_for(observation, answers, pod),
        settling=lambda pod: is_settling(observation, pod),
        before=wanted.before,
    )


def find_objections(observation: Observation[A], answers: Answers[A], pod: str) -> list[StopObjection]:
    """Return why a member must not restart now; none where the app has no other member that clients could use."""
    needs_majority = observation.role.quorum == "majority" and not observation.is_majority_without(pod)
    return [*([NO_MAJORITY] if needs_majority else []), *answers.objections_to_stop(observation, pod)]


def patience_for(observation: Observation[A], answers: Answers[A], pod: str) -> float:
    """Return for how many seconds a member may be unwell after its restart.

    To begin anew would cost it all that it has recovered so far. So one that says how far it is has any time, as one
    has that serves and is only behind; one that is silent has as long as its data takes to be read.
    """
    state = observation.states.get(pod)
    if state is not None and (state.progress or (not state.obstacle and observation.is_behind(pod))):
        return math.inf
    if "running" not in container(observation.world.pod(pod) or {}, observation.role.container).get("state", {}):
        return observation.role.patience
    return observation.role.patience + answers.recovery_seconds(observation, pod)


def roll_members(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Bring configuration and version to members, one at a time; None when all have it."""
    current, ledger = plan_roll(observation, answers), ledger_of(observation)
    if isinstance(current, Refusal):
        return blocked("NoWay", f"{current.reason}" + (f" ({current.hint})" if current.hint else ""))
    if current.mark == ledger.failed:
        return blocked("RollFailed", f"{ledger.failure}. It is not tried again until the app is changed in git")
    if ledger.failed and template_of(current.found) == current.mark and not current.old():
        written = replace(ledger, failed="", failure="")
        return step(State.PROGRESSING, "Rolled", "", answers.record(observation, written))
    decision = roll.advance(current)
    if current.before is not None and template_of(current.found) != current.mark and decision and decision.steps:
        return replace(decision, steps=(current.before, *decision.steps))
    return decision


def give_up_roll(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Give a template up with which a member does not come back: it is noted, then taken back."""
    ledger, current = ledger_of(observation), plan_roll(observation, answers)
    if isinstance(current, Refusal):
        return None
    if ledger.failed and (decision := roll.take_back(current, ledger.failed)) is not None:
        return decision
    reason = roll.broken(current)
    if reason is None or any(find_corrupt(observation, answers, pod) for pod in observation.pods):
        return None
    failed = replace(ledger, failed=template_of(current.found), failure=f"{current.what}: {reason}")
    note = f"{current.what} is given up: {reason}"
    return step(State.DEGRADED, "RollFailed", note, answers.record(observation, failed, "RollFailed", note))


def revive_members(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Give members that cannot start what git says by now, before anything waits for them or calls them lost."""
    current = plan_roll(observation, answers)
    if isinstance(current, Refusal) or current.before is not None or current.mark == ledger_of(observation).failed:
        return None
    down = [pod for pod in observation.pods if _is_down(observation, answers, pod)]
    return revive.revived(current, [pod for pod in down if answers.can_read(observation, pod, current.wanted)])


def _is_down(observation: Observation[A], answers: Answers[A], pod: str) -> bool:
    """Tell whether it is down for certain, and not because of its data, which no template mends."""
    if pod in observation.states or not revive.is_down(observation.world.pod(pod), observation.role.container):
        return False
    return find_corrupt(observation, answers, pod) is None
