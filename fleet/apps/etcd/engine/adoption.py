"""An etcd that runs already becomes an app: compared with what git says of it, and then taken over as it is. Pure.

Nothing of it changes that a member could notice: the StatefulSet gets two labels and a partition that holds every pod,
and keeps its claims whatever comes. Whoever is not certainly the one that git means is refused with the reason, and not
touched. The order of writes: what was found is noted, the StatefulSet is taken, and only then does the ledger say whose
cluster it is. So a pass may end anywhere: until the last of them everything is compared anew, and after it nothing is
compared again.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlsplit

from fleet.apps.etcd import fitting, names
from fleet.apps.etcd import found as finding
from fleet.apps.etcd import kept as keeping
from fleet.apps.etcd import layout as layouts
from fleet.apps.etcd.engine.faults import describe
from fleet.apps.etcd.engine.notes import noted
from fleet.apps.etcd.engine.observe import ledger_in
from fleet.apps.etcd.engine.protocol import Member
from fleet.apps.etcd.engine.seen import Seen
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.versions import VERSIONS
from fleet.kit.discovery import spec_managers, template_managers
from fleet.kit.driver import Problem
from fleet.kit.hold import held, is_held
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.roll import under_way
from fleet.kit.step import Decision, State, Take, blocked, step, wait
from fleet.kit.workload import Find
from fleet.kit.world import Object, World, template_of
from fleet.model.types import release
from fleet.text import count_noun


@dataclass(frozen=True, slots=True)
class Placed:
    """An app with the names of what it took over or is to take over; `unfit` says why it cannot."""

    app: Etcd
    world: World
    unfit: Problem | None = None
    taken: bool = False


class Pending(NamedTuple):
    """What else comes with a restart, and when: `NextRoll`, or the reason why it is another time."""

    reason: str
    words: str


def placed(app: Etcd, world: World) -> Placed:
    ledger = ledger_in(app, world)
    if ledger is not None and ledger.layout and ledger.identity:
        kept = layouts.read(ledger.layout)
        return Placed(names.laid_out(app, kept), world, taken=True)
    name = _wanted_set(app)
    found = world.get("StatefulSet", name)
    if found is None:
        return Placed(app, world, Problem("StatefulSet", f"there is no StatefulSet {name} in {app.namespace}"))
    read = finding.layout(found, _texts(world))
    if isinstance(read, Problem):
        return Placed(app, world, read)
    container = next(one for one in found["spec"]["template"]["spec"]["containers"] if one["name"] == read.container)
    baseline = {**keeping.baseline(app, str(container["image"])), "mark": template_of(found)}
    kept = replace(read, baseline=baseline)
    return Placed(names.laid_out(app, kept), world)


def known(placed: Placed, seen: Seen) -> Seen:
    """What was seen, with members' URLs as etcd itself has them: what a template says of them may have been a guess."""
    kept = names.layout(placed.app)
    if placed.unfit or kept is None or placed.taken or seen.members is None:
        return replace(seen, unfit=placed.unfit)
    urls = _urls(seen, kept)
    if isinstance(urls, Problem):
        return replace(seen, unfit=urls)
    return replace(seen, app=names.laid_out(placed.app, replace(kept, peer_url=urls[0], client_url=urls[1])))


def adopted(seen: Seen, images: Mapping[str, str]) -> Decision | None:
    """None once it is taken over, and for an app that is made anew."""
    if seen.app.adoption is None:
        return None
    if seen.ledger is not None and seen.ledger.layout and seen.ledger.identity:
        return None
    if (refusal := _before_asking(seen)) is not None:
        return refusal
    waiting = _waits(seen)
    return _after_asking(seen) or waiting or _otherwise(seen, images) or _take(seen)


def conditions(seen: Seen, pending: Pending | None = None) -> tuple[tuple[str, str, str, str], ...]:
    """`Adopted`, and what is still to come with the next restart; `pending` is what does beside labels and files."""
    kept, found = names.layout(seen.app), seen.stateful_set
    if seen.app.adoption is None:
        return ()
    if kept is None or found is None or seen.ledger is None or not seen.ledger.identity:
        return (("Adopted", "False", "NotTaken", "nothing was taken over or changed"),)
    others = spec_managers(found)
    also = f"; fields of it are still managed by {', '.join(others)}" if others else ""
    taken = f"StatefulSet {kept.stateful_set} is run as it was found, cluster {seen.ledger.identity}{also}"
    return (("Adopted", "True", "TakenOver", taken), _converged(seen, found, pending))


def let_go(seen: Seen) -> Decision | None:
    """Who was named only after it was taken over, or came back since, gives up its fields now."""
    found, taken = seen.stateful_set, seen.app.adoption
    others = set(taken.take_from) & set(spec_managers(found)) if taken and found else set()
    if found is None or not others:
        return None
    note = f"{', '.join(sorted(others))} managed fields of the StatefulSet, and git takes them"
    return step(State.PROGRESSING, "Adopting", note, Take(found, None, tuple(sorted(others)), "TakenFrom", note))


def owned_by_others(seen: Seen) -> Decision | None:
    """The first roll changes the template: not while it is somebody else's."""
    theirs = template_managers(seen.stateful_set) if seen.stateful_set else ()
    if not theirs:
        return None
    return blocked(
        "ManagedByOthers",
        f"members must restart with another template, which is managed by {', '.join(theirs)}; it is changed "
        f"when git says take_from={list(theirs)}",
    )


def as_found(seen: Seen) -> bool:
    """Whether members are still set up by what was found: no roll since, so they do not read our files.

    What was given back before may carry a mark of ours from then.
    """
    found, kept = seen.stateful_set, names.layout(seen.app)
    return kept is not None and found is not None and template_of(found) == kept.baseline.get("mark", "")


def late(seen: Seen) -> list[str]:
    """Pods that are still as they were found, while the first roll goes through the others."""
    kept = names.layout(seen.app)
    pods = {pod: seen.world.pod(pod) for pod in seen.pods} if kept is not None else {}
    mark = kept.baseline.get("mark", "") if kept is not None else ""
    return [pod for pod, found in pods.items() if found is not None and template_of(found) == mark]


def changes_over(seen: Seen) -> bool:
    """Whether a pod that is made now may be made as others had it: then nobody can join."""
    found = seen.stateful_set
    return names.layout(seen.app) is not None and found is not None and (bool(late(seen)) or under_way(found))


def _converged(seen: Seen, found: Object, pending: Pending | None) -> tuple[str, str, str, str]:
    current = template_of(found)
    late = [pod for pod in seen.pods if as_found(seen) or template_of(seen.world.pod(pod)) != current]
    if not late and pending is None:
        return ("Converged", "True", "Rolled", "members read the operator's files, and pods carry the app's labels")
    if not late and pending is not None and pending.reason != "NextRoll":
        return ("Converged", "False", *pending)
    labels = "pods get the app's labels; members read files instead of flags, which members that join need"
    waits = "; ".join([*([labels] if late else []), *([pending.words] if pending else [])])
    return ("Converged", "False", "NextRoll", f"at the next roll (`fleet roll {seen.app.name}`): {waits}")


def _wanted_set(app: Etcd) -> str:
    return (app.adoption and app.adoption.stateful_set) or app.name


def _texts(world: World) -> Find:
    def find(kind: str, name: str) -> Mapping[str, str] | None:
        found = world.get(kind, name)
        if found is None:
            return None
        data = found.get("data") or {}
        return data if kind == "ConfigMap" else {key: b64decode(one).decode("latin-1") for key, one in data.items()}

    return find


def _urls(seen: Seen, kept: Layout) -> tuple[str, str] | Problem:
    """The pattern of all members' peer URLs, and of their client URLs where these name the pod."""
    peers, clients = set(), set()
    for member in seen.members or ():
        pod = _pod_of(seen, member)
        if pod is None:
            return Problem(
                "members",
                f"{', '.join(member.peer_urls)} is a member of this etcd and no pod of {kept.stateful_set}: "
                "members of several StatefulSets, or outside of any, cannot be one app",
            )
        patterns = [url.replace(pod, "{pod}", 1) for url in member.peer_urls if pod in url]
        if not patterns:
            return Problem("members", f"{pod} is known as {', '.join(member.peer_urls)}, which changes with its pod")
        peers.add(patterns[0])
        clients |= {url.replace(pod, "{pod}", 1) for url in member.client_urls if pod in url}
    if len(peers) > 1:
        return Problem("members", f"peer URLs follow no pattern: {', '.join(sorted(peers))}")
    return peers.pop(), clients.pop() if len(clients) == 1 else kept.client_url


def _pod_of(seen: Seen, member: Member) -> str | None:
    hosts = {(urlsplit(url).hostname or "").partition(".")[0] for url in member.peer_urls}
    return next((pod for pod in seen.pods if pod == member.name or pod in hosts), None)


def _before_asking(seen: Seen) -> Decision | None:
    """What the objects alone say against it."""
    app, found = seen.app, seen.world.get("StatefulSet", _wanted_set(seen.app))
    if found is None:
        return blocked("NothingToAdopt", f"{seen.unfit.message if seen.unfit else 'nothing is there'}")
    if (objection := fitting.claims(app, found)) is not None:
        return blocked(*objection)
    if seen.unfit is not None:
        what, why = found["metadata"]["name"], f"{seen.unfit.field}: {seen.unfit.message}"
        return blocked("CannotAdopt", f"StatefulSet {what} cannot be taken over: {why}")
    kept = names.layout(app)
    objection = fitting.differences(app, found, tls=kept.tls if kept is not None else None)
    return blocked(*objection) if objection is not None else None


def _waits(seen: Seen) -> Decision | None:
    """Who does not answer may be anybody: nothing is compared with half of the members."""
    silent = [f"{pod}: {describe(seen, pod)}" for pod in seen.pods if pod not in seen.statuses]
    if silent:
        return wait(State.UNCERTAIN, "Adopting", f"not all members answer, so none is touched: {'; '.join(silent)}", 2)
    if seen.members is None:
        return wait(State.UNCERTAIN, "Adopting", "the members have no leader, so none is touched", 2)
    if unwell := [f"{pod}: {describe(seen, pod)}" for pod in seen.pods if not seen.healthy(pod)]:
        return wait(
            State.UNCERTAIN, "Adopting", f"not all members are well, so none is touched: {'; '.join(unwell)}", 2
        )
    return None


def _after_asking(seen: Seen) -> Decision | None:
    """What the members themselves say against it."""
    wanted = seen.app.adoption.identity if seen.app.adoption else ""
    identities = {pod: f"{status.cluster_id:x}" for pod, status in sorted(seen.statuses.items())}
    told = ", ".join(f"{pod} of {identity}" for pod, identity in identities.items())
    if len(set(identities.values())) > 1:
        return blocked("SplitBrain", f"the pods are members of different clusters ({told}); nothing is changed")
    if identities and set(identities.values()) != {wanted}:
        return blocked("OtherCluster", f"git means cluster {wanted}, and these are {told}; nothing is changed")
    series = {".".join(map(str, release(one.version).series)) for one in seen.statuses.values()}
    if series - set(VERSIONS.series):
        runs = ", ".join(sorted(series - set(VERSIONS.series)))
        return blocked("VersionOutOfRange", f"etcd {runs} runs, and this operator knows {', '.join(VERSIONS.series)}")
    wanted_series = ".".join(map(str, release(seen.app.version).series))
    if series and series != {wanted_series}:
        runs = ", ".join(sorted(series))
        return blocked(
            "NotAsDescribed", f"etcd {runs} runs, and git says {seen.app.version}: take it over as it is first"
        )
    if seen.members is not None and len(seen.members) != len(seen.pods):
        return blocked(
            "NotAsDescribed",
            f"etcd has {count_noun(len(seen.members), 'member')} in {count_noun(len(seen.pods), 'pod')}",
        )
    return None


def _otherwise(seen: Seen, images: Mapping[str, str]) -> Decision | None:
    """What git says of members that are certainly the ones it means, and is not so."""
    found, kept = seen.stateful_set, names.layout(seen.app)
    claims = [claim for pod in seen.pods if (claim := seen.claim_of(pod)) is not None]
    beside = fitting.Beside(claims, images)
    objection = fitting.otherwise(seen.app, found, kept, beside) if found is not None and kept is not None else None
    return blocked(*objection) if objection is not None else None


def _take(seen: Seen) -> Decision:
    app, found, kept = seen.app, seen.stateful_set, names.layout(seen.app)
    assert found is not None and kept is not None and app.adoption is not None  # noqa: S101 - looked at above
    identity = next(f"{status.cluster_id:x}" for status in seen.statuses.values())
    places = {pod: MemberRecord("settled", f"{member.id:x}") for pod, member in seen.by_pod.items()}
    ledger = Ledger("", places, layout=layouts.write(kept))
    message = f"StatefulSet {kept.stateful_set} is taken over as it runs"
    if seen.ledger != ledger:
        return step(State.PROGRESSING, "Adopting", message, noted(seen, ledger))
    labels = keeping.labels(app)
    there = found["metadata"].get("labels") or {}
    others = set(app.adoption.take_from) & set(spec_managers(found))
    if not is_held(found, seen.replicas) or others or labels.items() - there.items():
        annotations, spec = held(found, seen.replicas)
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "name": kept.stateful_set,
                "namespace": app.namespace,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": spec,
        }
        taking = Take(found, manifest, tuple(app.adoption.take_from), "Adopting", message)
        return step(State.PROGRESSING, "Adopting", message, taking)
    note = f"cluster {identity} with {count_noun(len(places), 'member')} is taken over: no pod was touched"
    return step(
        State.PROGRESSING, "Adopting", message, noted(seen, replace(ledger, identity=identity), "Adopted", note)
    )
