"""What an etcd needs at all times: one identity, pods for its members, their files, volumes of the right size. Pure."""

from __future__ import annotations

from fleet.apps.etcd.engine.faults import state_of, unwell, unwell_pods
from fleet.apps.etcd.engine.notes import files_as_wanted
from fleet.apps.etcd.engine.seen import Seen, ledger_of, set_of
from fleet.kit import names
from fleet.kit.backup.restoration import leftovers
from fleet.kit.backup.schedule import cron_job_name
from fleet.kit.stateful_set import changed
from fleet.kit.step import Apply, Decision, Delete, State, blocked, step, wait
from fleet.kit.world import is_leaving
from fleet.model.types import amount
from fleet.text import count_noun


def one_cluster(seen: Seen) -> Decision | None:
    """Members of another cluster under our names are not touched: somebody's data is in them."""
    identity = ledger_of(seen).identity
    others = [pod for pod, status in seen.statuses.items() if f"{status.cluster_id:x}" != identity]
    if not others:
        return None
    return blocked(
        "OtherCluster",
        f"{', '.join(others)} belong to another etcd cluster than {identity}, which this app is; nothing is changed. "
        "Delete the volume of the member that is wrong, or restore into a new app",
    )


def no_strangers(seen: Seen) -> Decision | None:
    if not seen.strangers:
        return None
    urls = ", ".join(url for member in seen.strangers for url in member.peer_urls)
    return blocked("UnknownMember", f"somebody added members that are none of this app's pods: {urls}; remove them")


def staffed(seen: Seen) -> Decision | None:
    """Members that stay have pods, also when somebody made the StatefulSet smaller behind etcd's back."""
    places = ledger_of(seen).places
    known = seen.voters if seen.members is not None else [pod for pod in places if places[pod].phase == "settled"]
    count = 1 + max((names.ordinal(pod) for pod in known if names.ordinal(pod) < seen.app.members), default=-1)
    if count <= seen.replicas:
        return None
    note = f"the StatefulSet had {count_noun(seen.replicas, 'pod')} for {count_noun(count, 'member')}"
    manifest = changed(set_of(seen), replicas=count, partition=count)
    return step(State.DEGRADED, "Restaffing", note, Apply(manifest, "Restaffing", note))


def filed(seen: Seen) -> Decision | None:
    """The members' files are there before any pod asks for them."""
    wanted = files_as_wanted(seen, ledger_of(seen))
    return step(State.PROGRESSING, "Configuring", "the members' files are written", wanted) if wanted else None


def tidied(seen: Seen) -> Decision | None:
    """Jobs of a restore that is over, and a schedule that git does not have any more, or whose place is not allowed."""
    gone = leftovers(seen.app, seen.world.all("Job"))
    if (seen.app.backup is None or seen.bars("backup.to")) and (
        cron := seen.world.get("CronJob", cron_job_name(seen.app))
    ):
        gone.append(cron)
    gone = [one for one in gone if not is_leaving(one)]
    return step(State.PROGRESSING, "Tidying", "what is over is removed", *map(Delete, gone)) if gone else None


def grown(seen: Seen) -> Decision | None:
    """Volumes become larger while members run, where the StorageClass can do that."""
    for pod in seen.pods:
        claim = seen.claim_of(pod)
        if claim is None or is_leaving(claim):
            continue
        asked = claim["spec"]["resources"]["requests"]["storage"]
        if amount(asked) < amount(seen.app.storage):
            own = {name: claim["metadata"][name] for name in ("name", "namespace", "uid")}
            manifest = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": own,
                "spec": {"resources": {"requests": {"storage": seen.app.storage}}},
            }
            note = f"the volume of {pod} grows: {asked} → {seen.app.storage}"
            return step(State.PROGRESSING, "Growing", note, Apply(manifest, "VolumeGrows", note))
    return None


def all_well(seen: Seen) -> Decision | None:
    told = unwell_pods(seen)
    return wait(state_of(seen, told), "MembersUnwell", unwell(seen), 2.0) if told else None
