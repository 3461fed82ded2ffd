"""The first time: members that begin a cluster together. There is no data yet, so nothing has to be protected. Pure."""

from __future__ import annotations

from dataclasses import replace

from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.faults import describe
from fleet.apps.etcd.engine.notes import noted
from fleet.apps.etcd.engine.seen import Seen
from fleet.kit import names
from fleet.kit.backup import stores
from fleet.kit.backup.restoration import restoration
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.members import founders as first_ledger
from fleet.kit.pods import stateful_set
from fleet.kit.stateful_set import changed
from fleet.kit.step import Apply, Decision, Delete, State, Step, blocked, step, wait
from fleet.kit.template import mark_of
from fleet.kit.world import Object, cannot_start, is_leaving, template_of
from fleet.text import count_noun


def founded(seen: Seen, template: Object, operator_image: str) -> Decision | None:
    """None once the founders have met and know their cluster's id."""
    ledger = seen.ledger
    if ledger is None:
        return _begin(seen) if seen.stateful_set is None else _remembered(seen)
    found = seen.stateful_set
    if found is None:
        image = template["spec"]["containers"][0]["image"]
        return _restored(seen, ledger, image, operator_image) or _start(seen, ledger, template)
    return None if ledger.identity else _meet(seen, ledger, found, template)


def _begin(seen: Seen) -> Decision:
    pods = tuple(names.pod(seen.app, number) for number in range(seen.app.members))
    note = f"etcd {seen.app.version} with {count_noun(len(pods), 'member')} is begun"
    return step(State.PROGRESSING, "Creating", note, noted(seen, first_ledger(pods), "Creating", note))


def _remembered(seen: Seen) -> Decision:
    """The ledger is written before anything starts, so somebody deleted it. What a majority says takes its place.

    Without one, nobody is allowed to begin: members without data would found a second cluster under the old name.
    """
    identities = {status.cluster_id for status in seen.statuses.values()}
    name = names.members_map(seen.app)
    if seen.members is None or len(identities) != 1:
        return blocked(
            "LedgerLost", f"the ConfigMap {name} is gone, and no majority answers; restore it, or the members"
        )
    settled = {pod: MemberRecord("settled", f"{seen.by_pod[pod].id:x}") for pod in seen.voters}
    note = f"the ConfigMap {name} was gone; it is written again from what the members say"
    ledger = Ledger(f"{identities.pop():x}", settled)
    return step(State.DEGRADED, "Remembering", note, noted(seen, ledger, "Remembering", note))


def _restored(seen: Seen, ledger: Ledger, image: str, operator_image: str) -> Decision | None:
    """A backup is put into the founders' volumes before any of them starts; None when that is done or not asked for."""
    app, world = seen.app, seen.world
    if app.restore_from is None or ledger.identity:
        return None
    if problems := [*stores.problems(app), *seen.bars("restore_from.source")]:
        return blocked("CannotRestore", "; ".join(map(str, problems)))
    state = restoration(
        PLAN,
        app,
        app.restore_from,
        sorted(ledger.places, key=names.ordinal),
        image=image,
        operator_image=operator_image,
        version=app.version,
        jobs=world.all("Job"),
        pods=world.all("Pod"),
        claims=world.all("PersistentVolumeClaim"),
        origins=seen.origins,
    )
    if state.state in ("done", "not needed"):
        return None
    if state.state == "failed":
        return blocked("RestoreFailed", state.message)
    steps: list[Step] = [Apply(one, "Restoring", state.message) for one in state.apply]
    steps += [Delete(one) for one in state.delete]
    return step(State.PROGRESSING, "Restoring", state.message, *steps, after=1.0)


def _start(seen: Seen, ledger: Ledger, template: Object) -> Decision:
    """Also when a StatefulSet was deleted under running members: it takes the pods that are there for its own."""
    count = 1 + max(names.ordinal(pod) for pod in ledger.places)
    manifest = stateful_set(DRIVER, seen.app, template, replicas=count)
    if ledger.identity:
        manifest["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = count
    return step(
        State.PROGRESSING,
        "Creating",
        f"{count_noun(count, 'member')} to start",
        Apply(manifest, "Started", "members start"),
    )


def _meet(seen: Seen, ledger: Ledger, found: Object, template: Object) -> Decision:
    identities = {status.cluster_id for status in seen.statuses.values()}
    if len(identities) > 1:
        told = ", ".join(f"{pod} of {status.cluster_id:x}" for pod, status in sorted(seen.statuses.items()))
        return blocked("OtherCluster", f"the volumes hold members of different clusters: {told}; nothing is changed")
    if template_of(found) != mark_of(template):
        return step(
            State.PROGRESSING,
            "Creating",
            "the members get another template",
            Apply(changed(found, template=template, partition=0)),
        )
    for pod in seen.pods:
        present = seen.world.pod(pod)
        outdated = present is not None and template_of(present) != template_of(found)
        if present is not None and outdated and not is_leaving(present) and pod not in seen.statuses:
            return step(State.PROGRESSING, "Creating", f"{pod} is made anew", Delete(present))
    if seen.members is not None and set(seen.by_pod) >= set(ledger.places) and all(map(seen.healthy, ledger.places)):
        settled = {pod: MemberRecord("settled", f"{seen.by_pod[pod].id:x}") for pod in ledger.places}
        written = replace(ledger, identity=f"{identities.pop():x}", places=settled)
        note = f"{count_noun(len(settled), 'member')} formed cluster {written.identity}"
        return step(State.PROGRESSING, "Creating", note, noted(seen, written, "Founded", note))
    waiting = "; ".join(f"{pod}: {describe(seen, pod)}" for pod in seen.pods if not seen.healthy(pod))
    stuck = [pod for pod in seen.pods if (one := seen.world.pod(pod)) is not None and cannot_start(one, seen.container)]
    return wait(State.DEGRADED if stuck else State.PROGRESSING, "Creating", waiting or "the members meet")
