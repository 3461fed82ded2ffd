"""Whether members are well, and why not. What is not certain is no reason to act. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import cannot_start, is_leaving, when, why_not_started
from fleet.kit.step import Decision, State, wait
from fleet.kit.workload.roll import under_way
from fleet.kit.workload.stateful_set import last_written
from fleet.kit.workload.volumes import hosts

NODE_PATIENCE = 30.0  # seconds that a node has to be known again, with its disks
SETTLING = 120.0  # seconds that a member has to become ready after the operator had its pod started


def describe(observation: Observation[Any], pod: str) -> str:
    """Say why a member is not well, for people."""
    found = observation.world.pod(pod)
    if found is None:
        return "its pod is not there"
    if is_leaving(found):
        return "its pod is going away"
    if reason := why_not_started(found, observation.role.container):
        return reason
    if pod in observation.silences:
        return observation.silences[pod].reason
    state = observation.states.get(pod)
    if state is None:
        return "its container starts" if observation.role.quorum != "none" else "it is not ready"
    if observation.role.quorum != "none" and pod not in observation.members:
        return "it is not on the list of members"
    if pod in observation.learners:
        return "it catches up"
    return state.obstacle or state.progress or "it is not ready"


def describe_pods(observation: Observation[Any], pods: Iterable[str]) -> str:
    """Say of each pod why it is not well, for people."""
    return "; ".join(f"{pod}: {describe(observation, pod)}" for pod in pods)


def describe_unwell(observation: Observation[Any]) -> str:
    """Say which members are not well and why; "" when all are."""
    return describe_pods(observation, observation.unwell_pods)


def is_settling(observation: Observation[Any], pod: str) -> bool:
    """Tell whether a member is not well only because the operator has just had its pod started: it joins, or a roll
    restarts it. What starts for another reason, does not start at all or takes too long is not settling."""
    parent, found = observation.stateful_set, observation.world.pod(pod)
    written = last_written(parent) if parent is not None else ""
    if parent is None or not written or (observation.world.now - when(written)).total_seconds() > SETTLING:
        return False
    if found is None or is_leaving(found):
        return under_way(parent)  # the roll restarts it
    return not cannot_start(found, observation.role.container) and observation.world.age(found) < SETTLING


def state_of(observation: Observation[Any], pods: Iterable[str]) -> State:
    """Return the state of an app of which these members are not well."""
    return State.PROGRESSING if all(is_settling(observation, pod) for pod in pods) else State.DEGRADED


def find_lost_volume(observation: Observation[Any], pod: str) -> str | None:
    """Say why the volume of a pod is gone for certain, as Kubernetes has it; None if that is not certain."""
    claim, found = observation.claim_of(pod), observation.world.pod(pod)
    if claim is not None and claim.get("status", {}).get("phase") == "Lost":
        return "its volume is lost"
    if claim is None or found is None or is_leaving(found) or pod in observation.states:
        return None
    volume = observation.world.volume(claim) if found["spec"].get("nodeName") is None else None
    known, needed = observation.world.nodes, hosts(volume) if volume is not None else None
    if known is None or needed is None or needed & known or observation.world.age(found) <= NODE_PATIENCE:
        return None
    return f"its volume was on {', '.join(sorted(needed))}, which is gone"


def wait_for_unwell(observation: Observation[Any]) -> Decision | None:
    """Say which members are not well; None when all are."""
    pods = observation.unwell_pods
    if not pods:
        return None
    return wait(state_of(observation, pods), "MembersUnwell", describe_pods(observation, pods), 2.0)
