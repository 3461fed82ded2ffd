"""Members that leave: the highest first, out of the engine before its pod goes, then its volume, then what the others
know of it. Pure."""

from __future__ import annotations

from typing import TypeVar

from fleet.kit import names
from fleet.kit.decide.health import describe_unwell, state_of
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, ledger_of, set_of
from fleet.kit.observe.world import is_leaving
from fleet.kit.step import Act, Apply, Decision, Delete, State, Step, step, wait
from fleet.kit.workload.stateful_set import changed
from fleet.model.app import App

A = TypeVar("A", bound=App)


def scale_in(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Take out the highest member that git does not want any more; None when there is none.

    The last one with a vote stays until another one has it: while a member that stays is replaced, it is off the list.
    """
    pods = {*observation.members, *observation.pods, *observation.records}
    leaving = max((number for number in map(names.ordinal, pods) if number >= observation.role.count), default=None)
    if leaving is None or (observation.role.count and observation.voters == [observation.pod(leaving)]):
        return None
    return _remove(observation, answers, observation.pod(leaving))


def _remove(observation: Observation[A], answers: Answers[A], pod: str) -> Decision:
    ordinal, count = names.ordinal(pod), observation.role.count
    message = f"scale to {count}: {pod} leaves"
    if pod in observation.members and (decision := _take_out(observation, answers, pod, message)) is not None:
        return decision
    if observation.replicas > ordinal:
        manifest = changed(set_of(observation), replicas=ordinal, partition=ordinal)
        return step(State.PROGRESSING, "ScalingIn", message, Apply(manifest, "ScalingIn", f"the pod of {pod} goes"))
    if observation.world.pod(pod) is not None:
        return wait(State.PROGRESSING, "ScalingIn", f"{message}; its pod ends", 0.5)
    claims = [claim for _, claim in observation.claims_of(pod)] if observation.role.deletes_volumes else []
    if claims:
        note = f"the volume of {pod} goes: it has left"
        gone = [Delete(claim, "VolumeDeleted", note) for claim in claims if not is_leaving(claim)]
        if gone:
            return step(State.PROGRESSING, "ScalingIn", message, *gone)
        return wait(State.PROGRESSING, "ScalingIn", f"{message}; its volume goes", 0.5)
    record = observation.records.get(pod)
    forget = Act("forget", {"member": record.member if record is not None else "", "pod": pod})
    further: list[Step] = [forget] if "forget" in answers.acts else []
    if not count and not ordinal and observation.stateful_set is not None:
        further.append(Delete(observation.stateful_set))  # the role is not wanted any more; it may be begun anew
    written = answers.record(observation, ledger_of(observation).without(pod))
    return step(State.PROGRESSING, "ScalingIn", message, *further, written)


def _take_out(observation: Observation[A], answers: Answers[A], pod: str, message: str) -> Decision | None:
    """Take a member out of the engine before its pod goes; None where its pod may go as it is.

    A leader hands over first, and the others must be a majority of those that are left.
    """
    staying = [other for other in observation.healthy_pods if names.ordinal(other) < observation.role.count]
    if observation.leader == pod and staying and "lead" in answers.acts:
        move = Act("lead", {"pod": staying[0]}, "LeaderMoved", f"{staying[0]} takes over before {pod} leaves")
        return step(State.PROGRESSING, "ScalingIn", message, move)
    if _breaks_majority(observation, pod):
        state, why = state_of(observation, observation.unwell_pods), describe_unwell(observation)
        return wait(state, "Waiting", f"{message} when the others are a majority: {why}")
    if objections := answers.objections_to_stop(observation, pod):
        why = "; ".join(objection.message for objection in objections)
        return wait(State.DEGRADED, "Waiting", f"{message}, but not now: {why}")
    if "drain" not in answers.acts:
        return None
    drain = Act("drain", {"member": observation.members[pod], "pod": pod}, "MemberRemoved", message)
    return step(State.PROGRESSING, "ScalingIn", message, drain)


def _breaks_majority(observation: Observation[A], pod: str) -> bool:
    voters = observation.voters
    if observation.role.quorum != "majority" or pod not in voters or len(voters) < 2:
        return False
    return not observation.is_majority_after(pod)
