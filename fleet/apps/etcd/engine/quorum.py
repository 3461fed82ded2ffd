"""A majority is gone. Reported always; healed only with a word in git, from the member that knows most. Pure.

The way: the StatefulSet is narrowed to the survivor's pod, so that no other member can come back behind its back; the
survivor starts once with `force-new-cluster` and is then alone on the list; it starts again without it, since with it a
container that ends by chance would throw out whoever has joined; then the others' volumes go and they join again as new
members, as after any loss.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.apps.etcd.engine.answers import EtcdAnswers
from fleet.apps.etcd.engine.observe import EtcdObservation, statuses_of
from fleet.kit import names
from fleet.kit.decide.health import describe, is_settling
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.stateful_set import changed
from fleet.kit.step import Apply, Decision, Delete, State, blocked, step, wait
from fleet.kit.world import is_leaving

PATIENCE = 60.0  # seconds that members have to come back by themselves before anything is called lost
UNREACHABLE = "kubelets call a majority of the members ready, and the operator does not reach one"


def recover_majority(observation: EtcdObservation, answers: EtcdAnswers, *, forcible: bool = True) -> Decision | None:
    """`forcible`: members read our files, so one of them can be told to go on alone."""
    if observation.agreement is not None:
        return None
    silent = [pod for pod in observation.pods if pod not in observation.states]
    told = "; ".join(f"{pod}: {describe(observation, pod)}" for pod in silent)
    told = told or "all members run, and they have no leader yet"
    is_answered = len(observation.states) > len(observation.pods) // 2
    if observation.is_ready_majority and not is_answered:
        return wait(State.UNCERTAIN, "Unreachable", f"{UNREACHABLE}: {told}", 2.0)
    starting = [
        pod
        for pod in observation.pods
        if (one := observation.world.pod(pod)) is None or observation.world.age(one) < PATIENCE
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
    if not observation.app.force_quorum:
        return blocked(
            "QuorumLost",
            f"a majority of the members is lost: {told}. If what git says keeps them from starting, change it. If they "
            "cannot come back, say force_quorum=True in git: etcd then goes on from the member that knows most, and "
            "writes that only the lost ones knew are gone",
            after=5.0,
        )
    return _force(observation, answers)


def _force(observation: EtcdObservation, answers: EtcdAnswers) -> Decision:
    """Learners are left out: what they have may be any part of the data."""
    known = {pod: status for pod, status in statuses_of(observation).items() if not status.is_learner}
    if not known:
        return blocked("QuorumLost", "no voter answers: there is none to go on from. Restore a backup into a new app")
    survivor = max(known, key=lambda pod: (known[pod].raft_term, known[pod].raft_index, -names.ordinal(pod)))
    ledger = observation.ledger or Ledger()
    note = f"{survivor} knows most; etcd goes on from it alone, as git allows"
    written = replace(ledger.with_place(survivor, MemberRecord("forced")), survivor=survivor)
    return step(State.DEGRADED, "ForcingQuorum", note, answers.record(observation, written, "ForcingQuorum", note))


def finish_recovery(observation: EtcdObservation, answers: EtcdAnswers) -> Decision | None:
    """A recovery that was begun comes to its end before anything else."""
    ledger, found = observation.ledger, observation.stateful_set
    if ledger is None or not ledger.survivor or found is None:
        return None
    survivor = ledger.survivor
    ordinal = names.ordinal(survivor)
    message = f"etcd goes on from {survivor} alone"
    start = int(found["spec"].get("ordinals", {}).get("start", 0))
    if ledger.places[survivor].phase == "forced":
        if (start, observation.replicas) != (ordinal, 1):
            manifest = changed(found, replicas=1, start=ordinal, partition=ordinal + 1)
            return step(
                State.DEGRADED, "ForcingQuorum", message, Apply(manifest, "ForcingQuorum", "the others are stopped")
            )
        others = [
            pod["metadata"]["name"] for pod in observation.world.all("Pod") if pod["metadata"]["name"] in ledger.places
        ]
        if [pod for pod in others if pod != survivor]:
            return wait(State.DEGRADED, "ForcingQuorum", f"{message}; the others end", 0.5)
        alone = (
            observation.agreement is not None
            and len(observation.agreement.detail) == 1
            and survivor in observation.members
        )
        if alone:
            settled = ledger.with_place(survivor, MemberRecord("settled", observation.members[survivor]))
            return step(State.DEGRADED, "ForcingQuorum", message, answers.record(observation, settled))
        restart = _with_its_file(observation, survivor, message, f"{survivor} restarts alone")
        return restart or wait(State.DEGRADED, "ForcingQuorum", f"{message}: {describe(observation, survivor)}")
    return _unforced(observation, survivor, message) or _others_come_back(observation, answers, ledger, survivor, start)


def _with_its_file(observation: EtcdObservation, survivor: str, message: str, note: str) -> Decision | None:
    """A pod that is older than the file may start with the one before: kubelets bring files late to pods that run."""
    pod = observation.world.pod(survivor)
    config = observation.world.get("ConfigMap", names.members_map(observation.app)) or {"metadata": {}}
    if pod is None or is_leaving(pod) or pod["metadata"]["creationTimestamp"] > _time_of(config):
        return None
    return step(State.DEGRADED, "ForcingQuorum", message, Delete(pod, "ForcingQuorum", note), after=2.0)


def _unforced(observation: EtcdObservation, survivor: str, message: str) -> Decision | None:
    """Nobody joins before the survivor runs with a file that forces nothing."""
    if observation.replicas > 1:
        return None
    note = f"{survivor} restarts, and is forced no more"
    if (restart := _with_its_file(observation, survivor, message, note)) is not None:
        return restart
    if observation.agreement is None:
        return wait(State.DEGRADED, "ForcingQuorum", f"{message}: {describe(observation, survivor)}", 0.5)
    return None


def _others_come_back(
    observation: EtcdObservation, answers: EtcdAnswers, ledger: Ledger, survivor: str, start: int
) -> Decision | None:
    """Their old data must never be observation again, so it goes before their pods can."""
    found = observation.stateful_set
    assert found is not None  # noqa: S101 - the caller looked
    message = f"etcd goes on from {survivor}; the others come back empty"
    others = [pod for pod in ledger.places if pod != survivor]
    if start:
        for pod in others:
            claim = observation.claim_of(pod)
            if claim is not None and not is_leaving(claim):
                return step(
                    State.DEGRADED,
                    "ForcingQuorum",
                    message,
                    Delete(claim, "VolumeDeleted", f"the volume of {pod} goes"),
                )
            if claim is not None:
                return wait(State.DEGRADED, "ForcingQuorum", message, 0.5)
    count = 1 + max(map(names.ordinal, ledger.places))
    if start or observation.replicas != count:
        if not start:
            for pod in others:
                claim = observation.claim_of(pod)
                if claim is not None and observation.world.pod(pod) is None:
                    if not is_leaving(claim):
                        return step(
                            State.DEGRADED,
                            "ForcingQuorum",
                            message,
                            Delete(claim, "VolumeDeleted", f"the volume of {pod} goes"),
                        )
                    return wait(State.DEGRADED, "ForcingQuorum", message, 0.5)
        manifest = changed(found, replicas=count, start=0, partition=count)
        return step(State.DEGRADED, "ForcingQuorum", message, Apply(manifest, "ForcingQuorum", message))
    note = f"etcd has gone on from {survivor}"
    return step(
        State.DEGRADED,
        "ForcedQuorum",
        note,
        answers.record(observation, replace(ledger, survivor=""), "ForcedQuorum", note),
    )


def _time_of(config: dict[str, object]) -> str:
    """When the operator last wrote the ConfigMap."""
    metadata = config["metadata"]
    entries = metadata.get("managedFields") or () if isinstance(metadata, dict) else ()
    return max((str(entry.get("time", "")) for entry in entries), default="")
