"""Another configuration or version: how it goes through the members, is given up, or reaches first those that cannot
start without it. How one roll advances is in `fleet.kit.workload.roll`. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from fleet.kit.decide.health import describe_pods, is_settling
from fleet.kit.decide.replace import find_corrupt
from fleet.kit.driver import Refusal
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, ledger_of, set_of
from fleet.kit.observe.world import container, template_of, when
from fleet.kit.step import Decision, State, blocked, step
from fleet.kit.workload import revive, roll
from fleet.kit.workload.roll import Rolling, StopObjection
from fleet.kit.workload.template import mark_of
from fleet.model.app import App

A = TypeVar("A", bound=App)
NOTES = 4  # in the patience of a role: how often it is written down that a member is busy
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
        waited=lambda pod: _waited(observation, pod),
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
    if _is_busy(observation, pod):
        return math.inf
    if "running" not in container(observation.world.pod(pod) or {}, observation.role.container).get("state", {}):
        return observation.role.patience
    return observation.role.patience + answers.recovery_seconds(observation, pod)


def _is_busy(observation: Observation[A], pod: str) -> bool:
    state = observation.states.get(pod)
    return state is not None and bool(state.progress or (not state.obstacle and observation.is_behind(pod)))


def _waited(observation: Observation[A], pod: str) -> float:
    """Return for how many seconds a member has been unwell since it was last seen to be busy."""
    found, noted = observation.world.pod(pod), ledger_of(observation).busy.get(pod)
    unready = observation.world.unready_for(found) if found is not None else 0.0
    return min(unready, (observation.world.now - when(noted)).total_seconds()) if noted else unready


def note_busy(observation: Observation[A], answers: Answers[A], current: Rolling) -> Decision | None:
    """Write down when members of a roll were last seen to be busy, and forget it when the roll is over.

    Patience begins when a member stops being busy: between its own word that it serves and its kubelet's there is a
    moment. Nobody sees that it stops, so what is known is written every quarter of the patience.
    """
    ledger, now = ledger_of(observation), observation.world.now
    own = str(current.found["metadata"]["name"])
    if not roll.under_way(current.found):
        kept = {pod: noted for pod, noted in ledger.busy.items() if pod.rpartition("-")[0] != own}
        return None if kept == ledger.busy else _note(observation, answers, kept, "the roll is over")
    late = observation.role.patience / NOTES
    noted = {
        pod: now.isoformat()
        for pod, _ in roll.waited_for(current)
        if _is_busy(observation, pod) and _waited(observation, pod) > late
    }
    return _note(observation, answers, {**ledger.busy, **noted}, describe_pods(observation, noted)) if noted else None


def _note(observation: Observation[A], answers: Answers[A], busy: Mapping[str, str], what: str) -> Decision:
    written = replace(ledger_of(observation), busy=busy)
    return step(State.PROGRESSING, "Rolling", what, answers.record(observation, written))


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
    if (noted := note_busy(observation, answers, current)) is not None:
        return noted
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
