"""Members that join, or come back with nothing: announced, an empty volume, a pod, let in, and at last the vote. Pure.

There are three ways to join. A member that is *announced* is on the list before its pod is made. One that is *added* is
let in once its pod runs. One that joins by *itself* finds the others by its file. In all three its record says that it
joins before its pod can start, since its file follows from that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from fleet.kit import names
from fleet.kit.decide.health import describe, describe_unwell, state_of
from fleet.kit.members import MemberRecord
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, in_order, ledger_of, set_of
from fleet.kit.observe.world import Object, cannot_start, container, is_leaving
from fleet.kit.step import Act, Apply, Decision, Delete, State, Step, blocked, step, wait
from fleet.kit.workload.stateful_set import changed
from fleet.model.app import App

A = TypeVar("A", bound=App)
GONE = "gone"  # in place of the UID of a claim: there was none any more
RESTARTS = 4  # of a joining member's container, after which its pod is made anew: kubelets back off for minutes


def scale_out(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Have one more member join if git wants more, and one that is made now can."""
    count = observation.role.count
    if observation.replicas >= count or not answers.may_join(observation):
        return None
    pod = observation.pod(observation.replicas)
    message = f"scale to {count}: {pod} joins"
    if unwell := describe_unwell(observation):
        state = state_of(observation, observation.unwell_pods)
        return wait(state, "Waiting", f"{message} when all members are well: {unwell}")
    claim = observation.claim_of(pod)
    adopted = names.adopted_names(observation.app) is not None  # its claims are never deleted, whoever asks for it
    if claim is not None and (adopted or not observation.role.deletes_volumes) and not observation.role.stands_alone:
        name = claim["metadata"]["name"]
        return blocked(
            "OldVolume",
            f"{message}, but the claim {name} is kept from a member that left: delete it, or rename it away",
        )
    return step(State.PROGRESSING, "ScalingOut", message, _begin(observation, answers, pod))


def admit_members(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Let in members that are on the way: an empty volume, a pod, and the vote once they have caught up."""
    for pod in _joining(observation):
        return _join(observation, answers, pod)
    for pod in _returning(observation, answers):
        return _come_back(observation, answers, pod)
    return None


def settle_members(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Note members that have joined: they have data from now on, and must not start again without it."""
    ledger, changes = ledger_of(observation), {}
    for pod in _joined(observation):
        record = MemberRecord("settled", observation.members.get(pod, ""), role=observation.role.name)
        if ledger.places.get(pod) != record:
            changes[pod] = record
    if not changes:
        return None
    written = replace(ledger, places={**ledger.places, **changes})
    return step(State.PROGRESSING, "Joined", f"{', '.join(changes)} joined", answers.record(observation, written))


def _joining(observation: Observation[A]) -> list[str]:
    """Return the pods of members on their way in: on the list without a vote, or by their records."""
    if observation.role.joining == "announced":
        return observation.learners
    records, joined = observation.records, _joined(observation)
    return [pod for pod in observation.recorded_pods if records[pod].phase == "joining" and pod not in joined]


def _returning(observation: Observation[A], answers: Answers[A]) -> list[str]:
    """Return the pods of members that are to come back as new ones.

    One that was announced once and is on no list any more was taken out for good. One that joins in another way may
    come back by itself with its data, so its data must have been found of no use before.
    """
    if observation.role.quorum != "none" and observation.agreement is None:
        return []
    records = observation.records
    staying = [pod for pod in observation.recorded_pods if names.ordinal(pod) < observation.role.count]
    missing = [pod for pod in staying if pod not in observation.members]
    if observation.role.joining == "announced":
        return missing
    out = missing if "drain" in answers.acts else staying
    return [pod for pod in out if records[pod].phase == "settled" and records[pod].spoiled]


def _joined(observation: Observation[A]) -> list[str]:
    """Return the pods of members that have data: of those that are announced a vote says so."""
    if observation.role.joining == "announced":
        return [pod for pod in observation.voters if pod in observation.states]
    records = observation.records
    marked = {pod for pod, record in records.items() if record.phase == "settled" and record.spoiled}
    return [pod for pod in observation.healthy_pods if pod not in marked]


def _come_back(observation: Observation[A], answers: Answers[A], pod: str) -> Decision:
    """Have a member come back as a new one.

    The old volume goes while the file still says that there must be data: a pod that was restarted on it with the file
    of a joining member would become that member, and lose its data a moment later.
    """
    record, claim = observation.records[pod], observation.claim_of(pod)
    if record.phase != "settled" or not record.spoiled:
        # The event says again that it was replaced: the answer to its removal may have been lost, and the event with it
        note = f"{pod} will get an empty volume"
        return step(State.DEGRADED, "Replacing", note, mark_spoiled(observation, answers, pod, f"is no member: {note}"))
    if claim is not None and claim["metadata"]["uid"] == record.spoiled:
        decision = _empty_volume(observation, pod, claim)
        if decision.steps:
            return decision
    message = f"{pod} comes back as a new member"
    return step(State.DEGRADED, "Replacing", message, _begin(observation, answers, pod))


def mark_spoiled(observation: Observation[A], answers: Answers[A], pod: str, note: str) -> Apply:
    """Return the step that notes that the data in a pod's volume is of no use: nothing starts on it as a new member."""
    record, claim = observation.records[pod], observation.claim_of(pod)
    uid = str(claim["metadata"]["uid"]) if claim is not None else GONE
    marked = MemberRecord("settled", record.member, spoiled=uid, role=observation.role.name)
    ledger = ledger_of(observation).with_place(pod, marked)
    return answers.record(observation, ledger, "MemberReplaced", f"{pod} {note}")


def _begin(observation: Observation[A], answers: Answers[A], pod: str) -> Step:
    """Return the first step of a member's way in."""
    if observation.role.joining == "announced":
        return Act("announce", {"pod": pod}, "MemberAdded", f"{pod} is announced as a learner")
    return _record_joining(observation, answers, pod, "MemberAdded", f"{pod} joins")


def _record_joining(
    observation: Observation[A], answers: Answers[A], pod: str, reason: str = "", note: str = ""
) -> Apply:
    """Return the step that notes whom a joining member finds, and which volume it must not start on."""
    record, claim = observation.records.get(pod), observation.claim_of(pod)
    emptied = record.spoiled if record is not None and record.phase == "settled" else ""
    joining = MemberRecord(
        "joining",
        observation.members.get(pod, ""),
        tuple(in_order(observation.members or observation.records)),
        emptied or (str(claim["metadata"]["uid"]) if claim is not None and not observation.role.stands_alone else ""),
        answers.addresses(observation),
        observation.role.name,
    )
    return answers.record(observation, ledger_of(observation).with_place(pod, joining), reason, note)


def _join(observation: Observation[A], answers: Answers[A], pod: str) -> Decision:
    role, record, claim = observation.role, observation.records.get(pod), observation.claim_of(pod)
    member = observation.members.get(pod, "")
    message = f"{pod} joins"
    if record is None or record.phase != "joining" or _is_outdated(observation, record, pod):
        return step(State.PROGRESSING, "Joining", message, _record_joining(observation, answers, pod))
    if claim is not None and claim["metadata"]["uid"] == record.spoiled:
        return _empty_volume(observation, pod, claim)
    if observation.replicas <= names.ordinal(pod):
        count = names.ordinal(pod) + 1
        manifest = changed(set_of(observation), replicas=count, partition=count)
        return step(State.PROGRESSING, "Joining", message, Apply(manifest, "ScalingOut", f"{pod} is started"))
    if role.joining == "itself" and (restart := _restart_with_its_file(observation, pod, message)) is not None:
        return restart
    if pod not in observation.states:
        return _wait_for_start(observation, pod, message)
    if role.joining == "added" and pod not in observation.members:
        admit = Act("admit", {"pod": pod}, "MemberAdded", f"{pod} is let in")
        return step(State.PROGRESSING, "Joining", message, admit)
    if role.votes and pod in observation.learners:
        vote = Act("vote", {"member": member, "pod": pod}, "MemberPromoted", f"{pod} has caught up and votes")
        return step(State.PROGRESSING, "Joining", f"{message}: it catches up", vote, after=0.5)
    return wait(State.PROGRESSING, "Joining", f"{message}: {describe(observation, pod)}")


def _is_outdated(observation: Observation[A], record: MemberRecord, pod: str) -> bool:
    """Tell whether the record of a member that was announced is of another one, or names others than are on the list.

    A member that has never started is turned away if its file has not all members that the others have: one of them may
    have been taken out since.
    """
    agreement = observation.agreement
    if observation.role.joining != "announced" or agreement is None:
        return False
    is_new = pod in agreement.expected
    return record.member != agreement.members.get(pod, "") or (
        is_new and record.cluster != tuple(in_order(agreement.members))
    )


def _restart_with_its_file(observation: Observation[A], pod: str, message: str) -> Decision | None:
    """Have a member start anew that waits with the file of before, which says that it must have data.

    Its volume went with a pod that came back at once. One that is on its way by now is left alone.
    """
    found, state = observation.world.pod(pod), observation.states.get(pod)
    if found is None or is_leaving(found) or pod in observation.members or observation.is_healthy(pod):
        return None
    if (state is not None and state.progress) or is_newer_than_files(observation, found):
        return None
    note = f"{pod} starts with the file of a member that joins"
    return step(State.PROGRESSING, "Joining", message, Delete(found, "Restarted", note), after=2.0)


def is_newer_than_files(observation: Observation[A], pod: Object) -> bool:
    """Tell whether a pod was made after the members' files were written last: kubelets bring files late to pods that
    run, and one that is older may have started with those of before."""
    config = observation.world.get("ConfigMap", names.members_map(observation.app)) or {"metadata": {}}
    entries = config["metadata"].get("managedFields") or ()
    written = max((str(entry.get("time", "")) for entry in entries), default="")
    return str(pod["metadata"]["creationTimestamp"]) > written


def _wait_for_start(observation: Observation[A], pod: str, message: str) -> Decision:
    """Wait for a joining member's pod; one whose container ends again and again is made anew."""
    found, name = observation.world.pod(pod), observation.role.container
    if found is None or not cannot_start(found, name):
        return wait(State.PROGRESSING, "Joining", f"{message}: {describe(observation, pod)}")
    if is_leaving(found) or container(found, name).get("restartCount", 0) <= RESTARTS:
        return wait(State.DEGRADED, "Joining", f"{message}: {describe(observation, pod)}")
    note = f"{pod} is started anew"
    why = f"{note}: {describe(observation, pod)}"
    return step(State.DEGRADED, "Joining", why, Delete(found, "Restarted", note), after=30.0)


def _empty_volume(observation: Observation[A], pod: str, claim: Object) -> Decision:
    """Take an old volume away. The claim first: with it marked, a new pod cannot start on the old volume."""
    message = f"{pod} gets an empty volume"
    if not is_leaving(claim):
        return step(
            State.DEGRADED, "Replacing", message, Delete(claim, "VolumeDeleted", f"the volume of {pod} is of no use")
        )
    found = observation.world.pod(pod)
    if found is not None and not is_leaving(found):
        return step(State.DEGRADED, "Replacing", message, Delete(found, "PodDeleted", message))
    return wait(State.DEGRADED, "Replacing", message, 0.5)
