"""A majority is gone. Reported always; healed only if git says so, from the member that knows most. Pure.

The way: the StatefulSet is narrowed to the survivor's pod, so that no other member can come back behind its back; the
survivor starts once with a file that has it go on alone, and is then alone on the list; it starts again without that,
since with it a container that ends by chance would throw out whoever has joined; then the others' volumes go and they
join again as new members, as after any loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from fleet.kit import names
from fleet.kit.decide.health import describe, describe_pods, is_settling
from fleet.kit.decide.join import is_newer_than_files
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, in_order
from fleet.kit.observe.world import Object, is_leaving
from fleet.kit.step import Apply, Decision, Delete, State, blocked, step, wait
from fleet.kit.workload.stateful_set import changed
from fleet.model.app import App

A = TypeVar("A", bound=App)
RETURN_SECONDS = 60.0  # seconds that members have to come back by themselves before anything is called lost
UNREACHABLE = "kubelets call a majority of the members ready, and the operator does not reach one"


def recover_majority(observation: Observation[A], answers: Answers[A], *, forcible: bool = True) -> Decision | None:
    """Wait for members without which nothing is certain; go on from one of them if they are lost and git allows it.

    `forcible`: members read files of the operator's, so one of them can be told to go on alone.
    """
    if observation.agreement is not None or observation.role.quorum == "none":
        return None
    if not observation.role.count and not observation.pods:
        return None  # the last of them is on its way out
    silent = [pod for pod in observation.pods if pod not in observation.states]
    told = describe_pods(observation, silent) or "all members run, and they have no leader yet"
    if observation.role.quorum == "external":
        return wait(State.UNCERTAIN, "NoAgreement", f"what decides for the members could not be asked: {told}", 2.0)
    is_answered = len(observation.states) > len(observation.pods) // 2
    if observation.is_ready_majority and not is_answered:
        return wait(State.UNCERTAIN, "Unreachable", f"{UNREACHABLE}: {told}", 2.0)
    starting = [
        pod
        for pod in observation.pods
        if (one := observation.world.pod(pod)) is None or observation.world.age(one) < RETURN_SECONDS
    ]
    settling = [pod for pod in observation.pods if is_settling(observation, pod)]
    if starting or settling or is_answered:
        expected = settling and set(silent) <= set(settling)
        state = State.PROGRESSING if expected else State.DEGRADED
        return wait(state, "NoMajority", f"there is no majority; members are coming back: {told}")
    if not forcible:
        return blocked(
            "QuorumLost",
            f"a majority of the members is lost: {told}. Bring them back, or restore a backup into a new app: what "
            "others set up cannot be forced before its first roll",
            after=5.0,
        )
    if not getattr(observation.app, "force_quorum", False):
        return blocked(
            "QuorumLost",
            f"a majority of the members is lost: {told}. If what git says keeps them from starting, change it. If they "
            f"cannot come back, say force_quorum=True in git: {answers.name} then goes on from the member that knows "
            "most, and writes that only the lost ones knew are gone",
            after=5.0,
        )
    return _force(observation, answers)


def _force(observation: Observation[A], answers: Answers[A]) -> Decision:
    """Have the member that knows most go on. Those without a vote are left out: they may have any part of the data."""
    known = {pod: state for pod, state in observation.states.items() if state.votes}
    if not known:
        return blocked("QuorumLost", "no voter answers: there is none to go on from. Restore a backup into a new app")
    survivor = max(in_order(known), key=lambda pod: known[pod].knowledge)
    ledger = observation.ledger or Ledger()
    note = f"{survivor} knows most; {answers.name} goes on from it alone, as git allows"
    written = replace(
        ledger.with_place(survivor, MemberRecord("forced", role=observation.role.name)), survivor=survivor
    )
    return step(State.DEGRADED, "ForcingQuorum", note, answers.record(observation, written, "ForcingQuorum", note))


def finish_recovery(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Bring a recovery that was begun to its end, before anything else."""
    ledger, found = observation.ledger, observation.stateful_set
    if ledger is None or found is None or ledger.survivor not in observation.records:
        return None
    if ledger.places[ledger.survivor].phase == "forced":
        return _go_on_alone(observation, answers, ledger, found)
    return _stop_forcing(observation, answers, ledger) or _bring_others_back(observation, answers, ledger, found)


def _go_on_alone(observation: Observation[A], answers: Answers[A], ledger: Ledger, found: Object) -> Decision:
    survivor = ledger.survivor
    ordinal = names.ordinal(survivor)
    message = f"{answers.name} goes on from {survivor} alone"
    if (_start_of(found), observation.replicas) != (ordinal, 1):
        manifest = changed(found, replicas=1, start=ordinal, partition=ordinal + 1)
        narrow = Apply(manifest, "ForcingQuorum", "the others are stopped")
        return step(State.DEGRADED, "ForcingQuorum", message, narrow)
    if any(observation.world.pod(pod) is not None for pod in observation.records if pod != survivor):
        return wait(State.DEGRADED, "ForcingQuorum", f"{message}; the others end", 0.5)
    if list(observation.members) == [survivor] and not observation.strangers:
        record = MemberRecord("settled", observation.members[survivor], role=observation.role.name)
        written = answers.record(observation, ledger.with_place(survivor, record))
        return step(State.DEGRADED, "ForcingQuorum", message, written)
    restart = _restart_with_its_file(observation, survivor, message, f"{survivor} restarts alone")
    return restart or wait(State.DEGRADED, "ForcingQuorum", f"{message}: {describe(observation, survivor)}")


def _restart_with_its_file(observation: Observation[A], survivor: str, message: str, note: str) -> Decision | None:
    pod = observation.world.pod(survivor)
    if pod is None or is_leaving(pod) or is_newer_than_files(observation, pod):
        return None
    return step(State.DEGRADED, "ForcingQuorum", message, Delete(pod, "ForcingQuorum", note), after=2.0)


def _stop_forcing(observation: Observation[A], answers: Answers[A], ledger: Ledger) -> Decision | None:
    """Stop forcing: nobody joins before the survivor runs with a file that forces nothing."""
    if observation.replicas > 1:
        return None
    survivor = ledger.survivor
    message = f"{answers.name} goes on from {survivor} alone"
    note = f"{survivor} restarts, and is forced no more"
    if (restart := _restart_with_its_file(observation, survivor, message, note)) is not None:
        return restart
    if observation.agreement is None:
        return wait(State.DEGRADED, "ForcingQuorum", f"{message}: {describe(observation, survivor)}", 0.5)
    return None


def _bring_others_back(observation: Observation[A], answers: Answers[A], ledger: Ledger, found: Object) -> Decision:
    """Bring the others back as new ones. Their old data must never be seen again, so it goes before their pods can."""
    start, count = _start_of(found), 1 + max(map(names.ordinal, observation.records))
    message = f"{answers.name} goes on from {ledger.survivor}; the others come back empty"
    if not start and observation.replicas == count:
        note = f"{answers.name} has gone on from {ledger.survivor}"
        written = answers.record(observation, replace(ledger, survivor=""), "ForcedQuorum", note)
        return step(State.DEGRADED, "ForcedQuorum", note, written)
    for pod in observation.records:
        claim = observation.claim_of(pod)
        if pod == ledger.survivor or claim is None or (not start and observation.world.pod(pod) is not None):
            continue
        if is_leaving(claim):
            return wait(State.DEGRADED, "ForcingQuorum", message, 0.5)
        gone = Delete(claim, "VolumeDeleted", f"the volume of {pod} goes")
        return step(State.DEGRADED, "ForcingQuorum", message, gone)
    manifest = changed(found, replicas=count, start=0, partition=count)
    return step(State.DEGRADED, "ForcingQuorum", message, Apply(manifest, "ForcingQuorum", message))


def _start_of(found: Object) -> int:
    return int(found["spec"].get("ordinals", {}).get("start", 0))
