"""What to do next about an etcd: one function per concern, in the order in which they matter. Pure.

Each looks at what was seen and gives a decision, or None when its concern is satisfied; the first decision counts.
Nothing is remembered between passes but what the ledger, the StatefulSet and etcd itself hold, so that a pass may end
anywhere and the next one goes on from what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fleet.apps.driver import Hop, Refusal
from fleet.apps.etcd import names
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.image import image
from fleet.apps.etcd.kept import as_it_was
from fleet.apps.etcd.kept import template as kept_template
from fleet.apps.etcd.ledger import Ledger, Place
from fleet.apps.etcd.manifests import template
from fleet.apps.etcd.spec import Etcd
from fleet.apps.template import mark_of
from fleet.model.types.quantity import amount
from fleet.model.types.version import release
from fleet_operator.backup.restoration import leftovers
from fleet_operator.backup.schedule import cron_job_name
from fleet_operator.core import roll
from fleet_operator.core.roll import Rolling
from fleet_operator.core.stateful_set import changed
from fleet_operator.core.step import Act, Apply, Decision, Delete, State, blocked, step, wait
from fleet_operator.core.world import Object, cannot_start, container, is_leaving, template_of
from fleet_operator.engines.etcd.adoption import as_found, changes_over, late, let_go, owned_by_others
from fleet_operator.engines.etcd.faults import describe, spoiled
from fleet_operator.engines.etcd.founding import founded
from fleet_operator.engines.etcd.notes import files_as_wanted, noted
from fleet_operator.engines.etcd.quorum import recovery, without_majority
from fleet_operator.engines.etcd.seen import Seen

Images = Mapping[str, str]
Concerns = tuple[Callable[[], Decision | None], ...]
OPERATOR = "fleet-operator"  # among the images: the operator's own, for Jobs
GONE = "gone"  # in place of the UID of a claim: there was none any more
SETTLED_SECONDS = 10.0  # between probes of an etcd that is well


def decide(seen: Seen, images: Images, trust: str = "") -> Decision:
    """The whole order of concerns, for an etcd whose Services and certificates are in place."""
    if names.layout(seen.app) is not None:
        if seen.stateful_set is None:
            return blocked("SetGone", f"the StatefulSet {names.stateful_set(seen.app)} is gone; apply it again")
        if (decision := let_go(seen)) is not None:
            return decision
        if as_found(seen):
            return _first(_as_found(seen, images)) or _fine(seen)
    concerns: Concerns = (
        lambda: founded(seen, template(seen.app, image(seen.app, images), trust), images.get(OPERATOR, "")),
        lambda: filed(seen),
        lambda: one_cluster(seen),
        lambda: recovery(seen),
        lambda: staffed(seen),
        lambda: failed_roll(seen, images, trust),
        lambda: without_majority(seen),
        lambda: no_strangers(seen),
        lambda: corrupted(seen, late(seen)),
        lambda: mended_though_full(seen),
        lambda: space(seen),
        lambda: stays(seen),
        lambda: _irreparable(seen, late(seen)),
        lambda: repaired(seen),
        lambda: removed(seen),
        lambda: joined(seen),
        lambda: settled(seen),
        lambda: tidied(seen),
        lambda: grown(seen),
        lambda: None if changes_over(seen) else scaled_out(seen),
        lambda: rolled(seen, images, trust),
        lambda: all_well(seen),
        lambda: arrived(seen, images),
    )
    return _first(concerns) or _fine(seen)


def _as_found(seen: Seen, images: Images) -> Concerns:
    """For members that others set up, until the first roll: their pods read no files of ours, so nobody can join."""
    kept = names.layout(seen.app)
    wanted = kept is not None and not as_it_was(seen.app, kept)
    return (
        lambda: one_cluster(seen),
        lambda: staffed(seen),
        lambda: failed_roll(seen, images, "") if wanted or ledger_of(seen).failed else None,
        lambda: without_majority(seen, forcible=False),
        lambda: no_strangers(seen),
        lambda: corrupted(seen, seen.pods),
        lambda: space(seen),
        lambda: stays(seen),
        lambda: _irreparable(seen, seen.pods),
        lambda: removed(seen),
        lambda: settled(seen),
        lambda: tidied(seen),
        lambda: grown(seen),
        lambda: owned_by_others(seen) if wanted else None,
        lambda: filed(seen) if wanted else None,
        lambda: rolled(seen, images, "") if wanted else None,
        lambda: _needs_a_roll(seen),
        lambda: all_well(seen),
        lambda: arrived(seen, images),
    )


def _irreparable(seen: Seen, as_others_had_them: Sequence[str]) -> Decision | None:
    lost = {pod: reason for pod in as_others_had_them if (reason := spoiled(seen, pod)) is not None}
    if not lost:
        return None
    told = "; ".join(f"{pod}: {reason}" for pod, reason in lost.items())
    return blocked("CannotReplace", f"{told}. Members that others set up cannot be replaced before their first roll")


def _needs_a_roll(seen: Seen) -> Decision | None:
    if seen.replicas >= seen.app.members:
        return None
    return blocked(
        "NeedsRoll",
        f"scale to {seen.app.members} waits: members were set up by others, and one that joins needs what the first "
        f"roll brings: `fleet roll {seen.app.name}`",
    )


def _first(concerns: Concerns) -> Decision | None:
    return next((decision for concern in concerns if (decision := concern()) is not None), None)


def _fine(seen: Seen) -> Decision:
    return Decision(State.OK, "Healthy", _well(seen), (), SETTLED_SECONDS)


def ledger_of(seen: Seen) -> Ledger:
    assert seen.ledger is not None  # noqa: S101 - the founders wrote it before anything else
    return seen.ledger


def set_of(seen: Seen) -> Object:
    found = seen.stateful_set
    assert found is not None  # noqa: S101 - `founded` saw to it
    return found


def filed(seen: Seen) -> Decision | None:
    """The members' files are there before any pod asks for them."""
    wanted = files_as_wanted(seen, ledger_of(seen))
    return step(State.PROGRESSING, "Configuring", "the members' files are written", wanted) if wanted else None


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


def staffed(seen: Seen) -> Decision | None:
    """Members that stay have pods, also when somebody made the StatefulSet smaller behind etcd's back."""
    places = ledger_of(seen).places
    known = seen.voters if seen.members is not None else [pod for pod in places if places[pod].phase == "settled"]
    count = 1 + max((names.ordinal(pod) for pod in known if names.ordinal(pod) < seen.app.members), default=-1)
    if count <= seen.replicas:
        return None
    note = f"the StatefulSet had {seen.replicas} pods for {count} members"
    manifest = changed(set_of(seen), replicas=count, partition=count)
    return step(State.DEGRADED, "Restaffing", note, Apply(manifest, "Restaffing", note))


def no_strangers(seen: Seen) -> Decision | None:
    if not seen.strangers:
        return None
    urls = ", ".join(url for member in seen.strangers for url in member.peer_urls)
    return blocked("UnknownMember", f"somebody added members that are none of this app's pods: {urls}; remove them")


def corrupted(seen: Seen, as_others_had_them: Sequence[str]) -> Decision | None:
    """etcd stops writes when members' data differ: who has the wrong data goes, and then what was said against it."""
    found = [alarm.member_id for alarm in seen.alarms if alarm.kind == "CORRUPT"]
    if not found:
        return None
    if 0 in found:
        return blocked(
            "Corrupt",
            "etcd found that members differ in their data, not who is wrong, and takes no writes. Compare them, remove "
            "the member that is wrong and disarm the alarm, or restore a backup into a new app",
        )
    decision = _irreparable(seen, as_others_had_them) or repaired(seen)
    gone = sorted(set(found) - {member.id for member in seen.members or ()})
    if decision is not None or not gone:
        return decision
    note = (
        f"the member whose data was corrupt has left ({', '.join(f'{one:x}' for one in gone)}): writes are let in again"
    )
    return step(
        State.DEGRADED, "Disarming", note, *(Act("disarm", {"member": one}, "AlarmDisarmed", note) for one in gone)
    )


def _no_space(seen: Seen) -> bool:
    return any(alarm.kind == "NOSPACE" for alarm in seen.alarms)


def mended_though_full(seen: Seen) -> Decision | None:
    """What is full of live data stays full until people do something, and members are lost meanwhile as ever."""
    if not _no_space(seen) or not seen.crowded or _irreparable(seen, late(seen)) is not None:
        return None
    mending = _first((lambda: repaired(seen), lambda: removed(seen), lambda: joined(seen)))
    return mending if mending is not None and mending.steps else None


def space(seen: Seen) -> Decision | None:
    """etcd stops writes when its quota is full: old revisions go, the files are made smaller, and it goes on."""
    if not _no_space(seen):
        return None
    message = "the database has reached its quota; old revisions are compacted away"
    return step(State.DEGRADED, "NoSpace", message, Act("free-space", {}, "NoSpace", message), after=5.0)


def repaired(seen: Seen) -> Decision | None:
    """A member whose data is lost for certain is taken out, and comes back as a new one with an empty volume."""
    for pod in sorted(ledger_of(seen).places, key=names.ordinal):
        member = seen.by_pod.get(pod)
        reason = spoiled(seen, pod)
        if reason is None or member is None:
            continue
        if f"{member.id:x}" != ledger_of(seen).places[pod].member or not member.started:
            continue  # it is the new one already; what its old pod says does not count
        if not member.is_learner and not _can_be_replaced(seen, pod):
            return blocked("CannotReplace", f"{pod} must be replaced ({reason}), but the others are no majority")
        note = f"{pod} is replaced: {reason}"
        return step(State.DEGRADED, "Replacing", note, Act("remove", {"member": member.id}, "MemberReplaced", note))
    return None


def _can_be_replaced(seen: Seen, pod: str) -> bool:
    """Whether the others are a majority. While an alarm is on, etcd calls every member unhealthy, and their kubelets
    call all pods unready for it: then it counts what members say, and those that are to be replaced count for nothing.
    """
    if not seen.alarms:
        return seen.can_lose(pod)
    others = [one for one in seen.voters if one != pod and seen.in_step(one) and seen.pod_stays(one)]
    return len([one for one in others if spoiled(seen, one) is None]) > len(seen.voters) // 2


def removed(seen: Seen) -> Decision | None:
    """Fewer members are wanted: the highest leaves etcd first, then its pod goes, then its volume."""
    app, ledger = seen.app, ledger_of(seen)
    numbers = {*map(names.ordinal, seen.by_pod), *range(seen.replicas), *map(names.ordinal, ledger.places)}
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
            return wait(State.DEGRADED, "Waiting", f"{message} when the others are a majority: {_unwell(seen)}")
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


def joined(seen: Seen) -> Decision | None:
    """Who is announced is let in: file, empty volume, pod, and the vote once it has caught up."""
    for pod in seen.learners:
        return _joins(seen, pod)
    missing = [
        pod for pod in ledger_of(seen).places if pod not in seen.by_pod and names.ordinal(pod) < seen.app.members
    ]
    for pod in sorted(missing, key=names.ordinal):
        return _comes_back(seen, pod)
    return None


def _comes_back(seen: Seen, pod: str) -> Decision:
    """As a new member. The old volume goes while the file still says that there must be data: a pod that was restarted
    on it with the file of a joining member would become that member, and lose its data a moment later.
    """
    place, claim = ledger_of(seen).places[pod], seen.claim_of(pod)
    if place.phase != "settled" or not place.spoiled:
        left = Place("settled", place.member, spoiled=claim["metadata"]["uid"] if claim is not None else GONE)
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


def _announce(seen: Seen, pod: str, note: str) -> Act:
    return Act("add", {"peer_url": names.peer_url(seen.app, pod)}, "MemberAdded", note)


def _joins(seen: Seen, pod: str) -> Decision:
    member, ledger = seen.by_pod[pod], ledger_of(seen)
    identity, place, claim = f"{member.id:x}", ledger.places.get(pod), seen.claim_of(pod)
    message = f"{pod} joins"
    if place is None or place.phase != "joining" or place.member != identity:
        emptied = place is not None and place.phase == "settled" and place.spoiled
        unusable = emptied or (claim["metadata"]["uid"] if claim is not None else "")
        joining = Place("joining", identity, tuple(sorted(seen.by_pod, key=names.ordinal)), unusable)
        return step(State.PROGRESSING, "Joining", message, noted(seen, ledger.with_place(pod, joining)))
    if claim is not None and claim["metadata"]["uid"] == place.spoiled:
        return _empty_volume(seen, pod, claim)
    if seen.replicas <= names.ordinal(pod):
        count = names.ordinal(pod) + 1
        manifest = changed(set_of(seen), replicas=count, partition=count)
        return step(State.PROGRESSING, "Joining", message, Apply(manifest, "ScalingOut", f"{pod} is started"))
    found = seen.world.pod(pod)
    if pod not in seen.statuses:
        if (
            found is not None
            and cannot_start(found)
            and not is_leaving(found)
            and container(found).get("restartCount", 0) > 4
        ):
            return step(
                State.DEGRADED,
                "Joining",
                f"{pod} is started anew: {describe(seen, pod)}",
                Delete(found, "Restarted", f"{pod} is started anew"),
                after=30.0,
            )
        state = State.DEGRADED if found is not None and cannot_start(found) else State.PROGRESSING
        return wait(state, "Joining", f"{message}: {describe(seen, pod)}")
    promote = Act("promote", {"member": member.id, "pod": pod}, "MemberPromoted", f"{pod} has caught up and votes")
    return step(State.PROGRESSING, "Joining", f"{message}: it catches up", promote, after=0.5)


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


def settled(seen: Seen) -> Decision | None:
    """A member that votes has data from now on: without it, it must not start again."""
    ledger, changes = ledger_of(seen), {}
    for pod in seen.voters:
        place = ledger.places.get(pod)
        wanted = Place("settled", f"{seen.by_pod[pod].id:x}")
        if place != wanted and pod in seen.statuses:
            changes[pod] = wanted
    if not changes:
        return None
    written = replace(ledger, places={**ledger.places, **changes})
    return step(State.PROGRESSING, "Joined", f"{', '.join(changes)} joined", noted(seen, written))


def tidied(seen: Seen) -> Decision | None:
    """Jobs of a restore that is over, and a schedule that git does not have any more."""
    gone = leftovers(seen.app, seen.world.all("Job"))
    if seen.app.backup is None and (cron := seen.world.get("CronJob", cron_job_name(seen.app))):
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


def scaled_out(seen: Seen) -> Decision | None:
    """More members are wanted: one at a time, as a learner first."""
    app = seen.app
    if seen.replicas >= app.members:
        return None
    pod = names.pod(app, seen.replicas)
    message = f"scale to {app.members}: {pod} joins"
    if _unwell(seen):
        return wait(State.DEGRADED, "Waiting", f"{message} when all members are well: {_unwell(seen)}")
    claim = seen.claim_of(pod)
    if claim is not None and (app.volume.on_scale_in == "keep" or names.layout(app) is not None):
        name = claim["metadata"]["name"]
        return blocked(
            "OldVolume",
            f"{message}, but the claim {name} is kept from a member that left: delete it, or rename it away",
        )
    return step(State.PROGRESSING, "ScalingOut", message, _announce(seen, pod, f"{pod} is announced as a learner"))


def next_hop(seen: Seen) -> Hop | Refusal | None:
    """The next release on the way to the wanted one; None when the members run that series."""
    running, wanted = seen.oldest_version, seen.app.version
    if running is None or release(running).series == release(wanted).series:
        return None
    path = DRIVER.path(running, wanted)
    if isinstance(path, Refusal):
        return path
    if len(path) > 1 and seen.app.image:
        return Refusal(
            f"from {running} to {wanted} are {len(path)} steps, and `image` names only one",
            f"go to {path[0].target} first",
        )
    return path[0] if path else None


def stays(seen: Seen) -> Decision | None:
    """A downgrade that git does not want any more is taken back: with it allowed, etcd keeps to the older format."""
    targets = {status.downgrading_to for status in seen.statuses.values() if status.downgrading_to}
    if not any(release(target).series < release(seen.app.version).series for target in targets):
        return None
    note = f"the downgrade to {', '.join(sorted(targets))} is taken back: git says {seen.app.version}"
    return step(State.PROGRESSING, "Staying", note, Act("no-downgrade", {}, "DowngradeCancelled", note))


def arrived(seen: Seen, images: Images) -> Decision | None:
    """All members have the image of the next hop, and still run what they ran: the image is not what its name says."""
    hop = next_hop(seen)
    if not isinstance(hop, Hop):
        return None
    had = image(seen.app.model_copy(update={"version": hop.target}), images)
    needed = f"; {hop.note} first" if hop.note else ""
    return blocked("NoWay", f"image {had} gives {seen.oldest_version}, and git says {seen.app.version}{needed}")


def wanted_template(seen: Seen, images: Images, trust: str) -> tuple[Object, str] | Refusal:
    """The template that members should have now, and what giving it to them is called."""
    hop = next_hop(seen)
    if isinstance(hop, Refusal):
        return hop
    app: Etcd = seen.app if hop is None else seen.app.model_copy(update={"version": hop.target})
    mixed = len({status.version for status in seen.statuses.values()}) > 1
    what = f"upgrade to {app.version}" if mixed else "new configuration"
    if hop is not None:
        what = f"{'downgrade' if hop.kind == 'downgrade' else 'upgrade'} {hop}"
    if (kept := names.layout(app)) is not None:
        return kept_template(app, kept, set_of(seen)["spec"]["template"], image(app, images)), what
    return template(app, image(app, images), trust), what


def rolling(seen: Seen, images: Images, trust: str) -> Rolling | Refusal:
    wanted = wanted_template(seen, images, trust)
    if isinstance(wanted, Refusal):
        return wanted
    made, what = wanted
    return Rolling(
        world=seen.world,
        found=set_of(seen),
        pods=seen.pods,
        wanted=made,
        mark=mark_of(made),
        what=what,
        healthy=seen.healthy,
        leader=seen.leader,
        can_stop=seen.can_lose,
    )


def failed_roll(seen: Seen, images: Images, trust: str) -> Decision | None:
    """A template with which a member does not come back is given up: it is noted, then taken back."""
    ledger, current = ledger_of(seen), rolling(seen, images, trust)
    if isinstance(current, Refusal):
        return None
    if ledger.failed and (decision := roll.take_back(current, ledger.failed)) is not None:
        return decision
    reason = roll.broken(current)
    if reason is None or any(spoiled(seen, pod) for pod in seen.pods):
        return None
    failed = replace(ledger, failed=template_of(current.found), failure=f"{current.what}: {reason}")
    note = f"{current.what} is given up: {reason}"
    return step(State.DEGRADED, "RollFailed", note, noted(seen, failed, "RollFailed", note))


def rolled(seen: Seen, images: Images, trust: str) -> Decision | None:
    """Configuration and version, one member at a time."""
    current, ledger = rolling(seen, images, trust), ledger_of(seen)
    if isinstance(current, Refusal):
        return blocked("NoWay", f"{current.reason}" + (f" ({current.hint})" if current.hint else ""))
    if current.mark == ledger.failed:
        return blocked("RollFailed", f"{ledger.failure}. It is not tried again until the app is changed in git")
    if ledger.failed and template_of(current.found) == current.mark and not current.old():
        return step(State.PROGRESSING, "Rolled", "", noted(seen, replace(ledger, failed="", failure="")))
    hop = next_hop(seen)
    if isinstance(hop, Hop) and hop.kind == "downgrade" and template_of(current.found) != current.mark:
        allow = Act("downgrade", {"version": ".".join(hop.target.split(".")[:2])})
        decision = roll.advance(current)
        return replace(decision, steps=(allow, *decision.steps)) if decision and decision.steps else decision
    return roll.advance(current)


def all_well(seen: Seen) -> Decision | None:
    unwell = _unwell(seen)
    return wait(State.DEGRADED, "MembersUnwell", unwell, 2.0) if unwell else None


def _unwell(seen: Seen) -> str:
    """Who is not well and why; "" when all are."""
    return "; ".join(f"{pod}: {describe(seen, pod)}" for pod in seen.pods if not seen.healthy(pod))


def _well(seen: Seen) -> str:
    count = len(seen.voters)
    return f"{count} member{'s' if count != 1 else ''} of etcd {seen.oldest_version} in step, {seen.leader} leads"
