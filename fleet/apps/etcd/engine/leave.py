"""Members that leave: the highest first, out of etcd before its pod goes, and then its volume. Pure."""

from __future__ import annotations

from fleet.apps.etcd.engine.faults import state_of, unwell, unwell_pods
from fleet.apps.etcd.engine.notes import noted
from fleet.apps.etcd.engine.seen import Seen, ledger_of, set_of
from fleet.kit import names
from fleet.kit.stateful_set import changed
from fleet.kit.step import Act, Apply, Decision, Delete, State, step, wait
from fleet.kit.world import is_leaving


def removed(seen: Seen) -> Decision | None:
    """Fewer members are wanted: the highest leaves etcd first, then its pod goes, then its volume."""
    app, ledger = seen.app, ledger_of(seen)
    numbers = {*map(names.ordinal, seen.by_pod), *map(names.ordinal, seen.pods), *map(names.ordinal, ledger.places)}
    leaving = max((number for number in numbers if number >= app.members), default=None)
    return _leaves(seen, names.pod(app, leaving)) if leaving is not None else None


def _leaves(seen: Seen, pod: str) -> Decision:
    app, ordinal = seen.app, names.ordinal(pod)
    message = f"scale to {app.members}: {pod} leaves"
    member = seen.by_pod.get(pod)
    if member is not None:
        staying = [one for one in seen.healthy_pods if names.ordinal(one) < app.members]
        if seen.leader == pod and staying:
            move = Act("lead", {"pod": staying[0]}, "LeaderMoved", f"{staying[0]} takes over before {pod} leaves")
            return step(State.PROGRESSING, "ScalingIn", message, move)
        if not member.is_learner and len(seen.voters) > 1 and not _majority_without(seen, pod):
            state = state_of(seen, unwell_pods(seen))
            return wait(state, "Waiting", f"{message} when the others are a majority: {unwell(seen)}")
        return step(
            State.PROGRESSING, "ScalingIn", message, Act("remove", {"member": member.id}, "MemberRemoved", message)
        )
    if seen.replicas > ordinal:
        manifest = changed(set_of(seen), replicas=ordinal, partition=ordinal)
        return step(State.PROGRESSING, "ScalingIn", message, Apply(manifest, "ScalingIn", f"the pod of {pod} goes"))
    if seen.world.pod(pod) is not None:
        return wait(State.PROGRESSING, "ScalingIn", f"{message}; its pod ends", 0.5)
    claim = seen.claim_of(pod)
    if claim is not None and app.volume.on_scale_in == "delete":
        if not is_leaving(claim):
            gone = Delete(claim, "VolumeDeleted", f"the volume of {pod} goes: it has left")
            return step(State.PROGRESSING, "ScalingIn", message, gone)
        return wait(State.PROGRESSING, "ScalingIn", f"{message}; its volume goes", 0.5)
    return step(State.PROGRESSING, "ScalingIn", message, noted(seen, ledger_of(seen).without(pod)))


def _majority_without(seen: Seen, pod: str) -> bool:
    """Whether the members that stay are a majority of what is left once this one is off the list."""
    others = [one for one in seen.healthy_pods if one != pod]
    return len(others) > (len(seen.voters) - 1) // 2
