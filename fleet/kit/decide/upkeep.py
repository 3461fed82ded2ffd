"""What members need at all times: one identity, pods for those that stay, files, volumes of the right size. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from fleet.kit import names
from fleet.kit.decide.health import state_of
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, in_order, ledger_of, set_of
from fleet.kit.observe.world import is_leaving, is_ready
from fleet.kit.step import Apply, Decision, Delete, Object, State, blocked, step, wait
from fleet.kit.workload.stateful_set import changed
from fleet.model.app import App
from fleet.model.types import amount
from fleet.text import count_noun

A = TypeVar("A", bound=App)


def refuse_other_cluster(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Leave members of another cluster under the app's names alone: their data is not the app's."""
    identity = ledger_of(observation).identity
    others = [pod for pod, state in observation.states.items() if state.identity and state.identity != identity]
    if not others:
        return None
    return blocked(
        "OtherCluster",
        f"{', '.join(others)} belong to another {answers.name} cluster than {identity}, which this app is; nothing is "
        "changed. Delete the volume of the member that is wrong, or restore into a new app",
    )


def doubt_list(observation: Observation[A]) -> Decision | None:
    """Wait while the list of members lacks one that serves, in its own words and its kubelet's: one of them is wrong.

    A member that was taken out ends within a second. Until then, and while an answer is wrong, nobody is taken for gone
    by that list, and no volume is emptied for it.
    """
    if observation.role.joining != "announced" or observation.agreement is None:
        return None
    doubtful = [
        pod
        for pod, state in observation.states.items()
        if pod not in observation.members
        and state.votes
        and not state.obstacle
        and is_ready(observation.world.pod(pod))
    ]
    if not doubtful:
        return None
    pods = ", ".join(in_order(doubtful))
    message = f"not on the list of members, and serving: {pods}; nothing is done by such a list"
    return wait(state_of(observation, doubtful), "ListDoubted", message)


def refuse_strangers(observation: Observation[A]) -> Decision | None:
    """Do nothing while members are on the list that are none of the app's pods: a user added them, and they vote."""
    if not observation.strangers:
        return None
    addresses = ", ".join(observation.strangers)
    return blocked(
        "UnknownMember", f"somebody added members that are none of this app's pods: {addresses}; remove them"
    )


def restore_pods(observation: Observation[A]) -> Decision | None:
    """Give members that stay their pods, also when a user made the StatefulSet smaller behind the operator's back."""
    records, wanted = observation.records, observation.role.count
    settled = [pod for pod in records if records[pod].phase == "settled"]
    staying = observation.voters if observation.agreement is not None else settled
    count = 1 + max((names.ordinal(pod) for pod in staying if names.ordinal(pod) < wanted), default=-1)
    if count <= observation.replicas:
        return None
    note = f"the StatefulSet had {count_noun(observation.replicas, 'pod')} for {count_noun(count, 'member')}"
    manifest = changed(set_of(observation), replicas=count, partition=count)
    return step(State.DEGRADED, "Restaffing", note, Apply(manifest, "Restaffing", note))


def write_files(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Write the members' files before any pod asks for them: members start with what they find there."""
    wanted = answers.record(observation, ledger_of(observation))
    present = observation.world.get("ConfigMap", str(wanted.manifest["metadata"]["name"])) or {}
    if wanted.manifest["data"] == present.get("data"):
        return None
    return step(State.PROGRESSING, "Configuring", "the members' files are written", wanted)


def remove_leftovers(leftovers: Iterable[Object]) -> Decision | None:
    """Remove objects that are of no more use."""
    steps = [Delete(found) for found in leftovers if not is_leaving(found)]
    return step(State.PROGRESSING, "Tidying", "what is over is removed", *steps) if steps else None


def grow_volumes(observation: Observation[A]) -> Decision | None:
    """Make volumes larger while members run, one after the other, where their StorageClass can do that."""
    claims = [(pod, wanted, claim) for pod in observation.pods for wanted, claim in observation.claims_of(pod)]
    for pod, wanted, claim in claims:
        if is_leaving(claim):
            continue
        asked = claim["spec"]["resources"]["requests"]["storage"]
        if amount(asked) < amount(wanted):
            own = {name: claim["metadata"][name] for name in ("name", "namespace", "uid")}
            manifest = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": own,
                "spec": {"resources": {"requests": {"storage": wanted}}},
            }
            note = f"the volume of {pod} grows: {asked} → {wanted}"
            return step(State.PROGRESSING, "Growing", note, Apply(manifest, "VolumeGrows", note))
    return None
