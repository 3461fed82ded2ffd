"""Members that join, or come back with nothing: announced as a learner, an empty volume, a pod, then the vote. Pure."""

from __future__ import annotations

from dataclasses import replace

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.faults import describe, state_of, unwell, unwell_pods
from fleet.apps.etcd.engine.notes import noted
from fleet.apps.etcd.engine.seen import Seen, ledger_of, set_of
from fleet.kit import names as kit_names
from fleet.kit.members import MemberRecord
from fleet.kit.stateful_set import changed
from fleet.kit.step import Act, Apply, Decision, Delete, State, blocked, step, wait
from fleet.kit.world import Object, cannot_start, container, is_leaving

GONE = "gone"  # in place of the UID of a claim: there was none any more


def scaled_out(seen: Seen) -> Decision | None:
    """More members are wanted: one at a time, as a learner first."""
    app = seen.app
    if seen.replicas >= app.members:
        return None
    pod = kit_names.pod(app, seen.replicas)
    message = f"scale to {app.members}: {pod} joins"
    if unwell(seen):
        state = state_of(seen, unwell_pods(seen))
        return wait(state, "Waiting", f"{message} when all members are well: {unwell(seen)}")
    claim = seen.claim_of(pod)
    if claim is not None and (app.volume.on_scale_in == "keep" or names.layout(app) is not None):
        name = claim["metadata"]["name"]
        return blocked(
            "OldVolume",
            f"{message}, but the claim {name} is kept from a member that left: delete it, or rename it away",
        )
    return step(State.PROGRESSING, "ScalingOut", message, _announce(seen, pod, f"{pod} is announced as a learner"))


def joined(seen: Seen) -> Decision | None:
    """Who is announced is let in: file, empty volume, pod, and the vote once it has caught up."""
    for pod in seen.learners:
        return _joins(seen, pod)
    missing = [
        pod for pod in ledger_of(seen).places if pod not in seen.by_pod and kit_names.ordinal(pod) < seen.app.members
    ]
    for pod in sorted(missing, key=kit_names.ordinal):
        return _comes_back(seen, pod)
    return None


def settled(seen: Seen) -> Decision | None:
    """A member that votes has data from now on: without it, it must not start again."""
    ledger, changes = ledger_of(seen), {}
    for pod in seen.voters:
        place = ledger.places.get(pod)
        wanted = MemberRecord("settled", f"{seen.by_pod[pod].id:x}")
        if place != wanted and pod in seen.statuses:
            changes[pod] = wanted
    if not changes:
        return None
    written = replace(ledger, places={**ledger.places, **changes})
    return step(State.PROGRESSING, "Joined", f"{', '.join(changes)} joined", noted(seen, written))


def _comes_back(seen: Seen, pod: str) -> Decision:
    """As a new member. The old volume goes while the file still says that there must be data: a pod that was restarted
    on it with the file of a joining member would become that member, and lose its data a moment later.
    """
    place, claim = ledger_of(seen).places[pod], seen.claim_of(pod)
    if place.phase != "settled" or not place.spoiled:
        left = MemberRecord("settled", place.member, spoiled=claim["metadata"]["uid"] if claim is not None else GONE)
        note = f"{pod} will get an empty volume"
        # Said here as well: the answer to its removal may have been lost, and the event with it.
        return step(
            State.DEGRADED,
            "Replacing",
            note,
            noted(seen, ledger_of(seen).with_place(pod, left), "MemberReplaced", f"{pod} is no member: {note}"),
        )
    if claim is not None and claim["metadata"]["uid"] == place.spoiled:
        decision = _empty_volume(seen, pod, claim)
        if decision.steps:
            return decision
    note = f"{pod} is announced as a learner"
    return step(State.DEGRADED, "Replacing", f"{pod} comes back as a new member", _announce(seen, pod, note))


def _joins(seen: Seen, pod: str) -> Decision:
    member, ledger = seen.by_pod[pod], ledger_of(seen)
    identity, place, claim = f"{member.id:x}", ledger.places.get(pod), seen.claim_of(pod)
    message = f"{pod} joins"
    if place is None or place.phase != "joining" or place.member != identity:
        emptied = place is not None and place.phase == "settled" and place.spoiled
        unusable = emptied or (claim["metadata"]["uid"] if claim is not None else "")
        joining = MemberRecord(
            "joining", identity, tuple(sorted(seen.by_pod, key=kit_names.ordinal)), unusable, _known_as(seen)
        )
        return step(State.PROGRESSING, "Joining", message, noted(seen, ledger.with_place(pod, joining)))
    if claim is not None and claim["metadata"]["uid"] == place.spoiled:
        return _empty_volume(seen, pod, claim)
    if seen.replicas <= kit_names.ordinal(pod):
        count = kit_names.ordinal(pod) + 1
        manifest = changed(set_of(seen), replicas=count, partition=count)
        return step(State.PROGRESSING, "Joining", message, Apply(manifest, "ScalingOut", f"{pod} is started"))
    found = seen.world.pod(pod)
    if pod not in seen.statuses:
        if (
            found is not None
            and cannot_start(found, seen.container)
            and not is_leaving(found)
            and container(found, seen.container).get("restartCount", 0) > 4
        ):
            return step(
                State.DEGRADED,
                "Joining",
                f"{pod} is started anew: {describe(seen, pod)}",
                Delete(found, "Restarted", f"{pod} is started anew"),
                after=30.0,
            )
        state = State.DEGRADED if found is not None and cannot_start(found, seen.container) else State.PROGRESSING
        return wait(state, "Joining", f"{message}: {describe(seen, pod)}")
    promote = Act("promote", {"member": member.id, "pod": pod}, "MemberPromoted", f"{pod} has caught up and votes")
    return step(State.PROGRESSING, "Joining", f"{message}: it catches up", promote, after=0.5)


def _announce(seen: Seen, pod: str, note: str) -> Act:
    return Act("add", {"peer_url": ",".join(names.peer_urls(seen.app, pod))}, "MemberAdded", note)


def _known_as(seen: Seen) -> tuple[str, ...]:
    """Who joins must name the others as they are on the list, which no pattern says while they change to TLS."""
    kept = names.layout(seen.app)
    if kept is None or not kept.secured:
        return ()
    pods = sorted(seen.by_pod, key=kit_names.ordinal)
    return tuple(f"{pod}={url}" for pod in pods for url in seen.by_pod[pod].peer_urls)


def _empty_volume(seen: Seen, pod: str, claim: Object) -> Decision:
    """The claim first: with it marked, a new pod cannot start on the old volume."""
    message = f"{pod} gets an empty volume"
    if not is_leaving(claim):
        return step(
            State.DEGRADED, "Replacing", message, Delete(claim, "VolumeDeleted", f"the volume of {pod} is of no use")
        )
    found = seen.world.pod(pod)
    if found is not None and not is_leaving(found):
        return step(State.DEGRADED, "Replacing", message, Delete(found, "PodDeleted", message))
    return wait(State.DEGRADED, "Replacing", message, 0.5)
