"""A majority is gone. Reported always; healed only with a word in git, from the member that knows most. Pure.

The way: the StatefulSet is narrowed to the survivor's pod, so that no other member can come back behind its back; the
survivor starts once with `force-new-cluster` and is then alone on the list; it starts again without it, since with it a
container that ends by chance would throw out whoever has joined; then the others' volumes go and they join again as new
members, as after any loss.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.apps.etcd.engine.faults import describe, is_settling
from fleet.apps.etcd.engine.notes import noted
from fleet.apps.etcd.engine.seen import Seen
from fleet.kit import names
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.stateful_set import changed
from fleet.kit.step import Apply, Decision, Delete, State, blocked, step, wait
from fleet.kit.world import is_leaving

PATIENCE = 60.0  # seconds that members have to come back by themselves before anything is called lost
UNREACHABLE = "kubelets call a majority of the members ready, and the operator does not reach one"


def without_majority(seen: Seen, *, forcible: bool = True) -> Decision | None:
    """`forcible`: members read our files, so one of them can be told to go on alone."""
    if seen.members is not None:
        return None
    silent = [pod for pod in seen.pods if pod not in seen.statuses]
    told = "; ".join(f"{pod}: {describe(seen, pod)}" for pod in silent)
    told = told or "all members run, and they have no leader yet"
    answers = len(seen.statuses) > len(seen.pods) // 2
    if seen.ready_majority and not answers:
        return wait(State.UNCERTAIN, "Unreachable", f"{UNREACHABLE}: {told}", 2.0)
    starting = [pod for pod in seen.pods if (one := seen.world.pod(pod)) is None or seen.world.age(one) < PATIENCE]
    settling = [pod for pod in seen.pods if is_settling(seen, pod)]
    if starting or settling or answers:
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
    if not seen.app.force_quorum:
        return blocked(
            "QuorumLost",
            f"a majority of the members is lost: {told}. If what git says keeps them from starting, change it. If they "
            "cannot come back, say force_quorum=True in git: etcd then goes on from the member that knows most, and "
            "writes that only the lost ones knew are gone",
            after=5.0,
        )
    return _force(seen)


def _force(seen: Seen) -> Decision:
    """Learners are left out: what they have may be any part of the data."""
    known = {pod: status for pod, status in seen.statuses.items() if not status.is_learner}
    if not known:
        return blocked("QuorumLost", "no voter answers: there is none to go on from. Restore a backup into a new app")
    survivor = max(known, key=lambda pod: (known[pod].raft_term, known[pod].raft_index, -names.ordinal(pod)))
    ledger = seen.ledger or Ledger()
    note = f"{survivor} knows most; etcd goes on from it alone, as git allows"
    written = replace(ledger.with_place(survivor, MemberRecord("forced")), survivor=survivor)
    return step(State.DEGRADED, "ForcingQuorum", note, noted(seen, written, "ForcingQuorum", note))


def recovery(seen: Seen) -> Decision | None:
    """A recovery that was begun comes to its end before anything else."""
    ledger, found = seen.ledger, seen.stateful_set
    if ledger is None or not ledger.survivor or found is None:
        return None
    survivor = ledger.survivor
    ordinal = names.ordinal(survivor)
    message = f"etcd goes on from {survivor} alone"
    start = int(found["spec"].get("ordinals", {}).get("start", 0))
    if ledger.places[survivor].phase == "forced":
        if (start, seen.replicas) != (ordinal, 1):
            manifest = changed(found, replicas=1, start=ordinal, partition=ordinal + 1)
            return step(
                State.DEGRADED, "ForcingQuorum", message, Apply(manifest, "ForcingQuorum", "the others are stopped")
            )
        others = [pod["metadata"]["name"] for pod in seen.world.all("Pod") if pod["metadata"]["name"] in ledger.places]
        if [pod for pod in others if pod != survivor]:
            return wait(State.DEGRADED, "ForcingQuorum", f"{message}; the others end", 0.5)
        alone = seen.members is not None and len(seen.members) == 1 and survivor in seen.by_pod
        if alone:
            settled = ledger.with_place(survivor, MemberRecord("settled", f"{seen.by_pod[survivor].id:x}"))
            return step(State.DEGRADED, "ForcingQuorum", message, noted(seen, settled))
        restart = _with_its_file(seen, survivor, message, f"{survivor} restarts alone")
        return restart or wait(State.DEGRADED, "ForcingQuorum", f"{message}: {describe(seen, survivor)}")
    return _unforced(seen, survivor, message) or _others_come_back(seen, ledger, survivor, start)


def _with_its_file(seen: Seen, survivor: str, message: str, note: str) -> Decision | None:
    """A pod that is older than the file may start with the one before: kubelets bring files late to pods that run."""
    pod = seen.world.pod(survivor)
    config = seen.world.get("ConfigMap", names.members_map(seen.app)) or {"metadata": {}}
    if pod is None or is_leaving(pod) or pod["metadata"]["creationTimestamp"] > _time_of(config):
        return None
    return step(State.DEGRADED, "ForcingQuorum", message, Delete(pod, "ForcingQuorum", note), after=2.0)


def _unforced(seen: Seen, survivor: str, message: str) -> Decision | None:
    """Nobody joins before the survivor runs with a file that forces nothing."""
    if seen.replicas > 1:
        return None
    note = f"{survivor} restarts, and is forced no more"
    if (restart := _with_its_file(seen, survivor, message, note)) is not None:
        return restart
    if seen.members is None:
        return wait(State.DEGRADED, "ForcingQuorum", f"{message}: {describe(seen, survivor)}", 0.5)
    return None


def _others_come_back(seen: Seen, ledger: Ledger, survivor: str, start: int) -> Decision | None:
    """Their old data must never be seen again, so it goes before their pods can."""
    found = seen.stateful_set
    assert found is not None  # noqa: S101 - the caller looked
    message = f"etcd goes on from {survivor}; the others come back empty"
    others = [pod for pod in ledger.places if pod != survivor]
    if start:
        for pod in others:
            claim = seen.claim_of(pod)
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
    if start or seen.replicas != count:
        if not start:
            for pod in others:
                claim = seen.claim_of(pod)
                if claim is not None and seen.world.pod(pod) is None:
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
    return step(State.DEGRADED, "ForcedQuorum", note, noted(seen, replace(ledger, survivor=""), "ForcedQuorum", note))


def _time_of(config: dict[str, object]) -> str:
    """When the operator last wrote the ConfigMap."""
    metadata = config["metadata"]
    entries = metadata.get("managedFields") or () if isinstance(metadata, dict) else ()
    return max((str(entry.get("time", "")) for entry in entries), default="")
