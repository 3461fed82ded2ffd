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
from fleet.apps.etcd.engine.observe import (
    EtcdObservation,
    make_agreement,
    members_of,
)
from fleet.apps.etcd.engine.protocol import Member
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.versions import VERSIONS
from fleet.kit.adoption.hold import held, is_held
from fleet.kit.adoption.managers import spec_managers, template_managers
from fleet.kit.adoption.workload import Find
from fleet.kit.answers import Answers
from fleet.kit.decide.health import describe
from fleet.kit.driver import Problem
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.observation import ledger_in
from fleet.kit.roll import under_way
from fleet.kit.step import Decision, State, Take, blocked, step, wait
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
    ledger = ledger_in(app, world, keeping.labels(app))
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


def known(placed: Placed, observation: EtcdObservation) -> EtcdObservation:
    """What was observed, with members' URLs as etcd itself has them: what a template says of them may have been a
    guess."""
    kept = names.layout(placed.app)
    members = members_of(observation)
    if placed.unfit or kept is None or placed.taken or members is None:
        return replace(observation, unfit=placed.unfit)
    urls = _urls(observation, kept)
    if isinstance(urls, Problem):
        return replace(observation, unfit=urls)
    app = names.laid_out(placed.app, replace(kept, peer_url=urls[0], client_url=urls[1]))
    return replace(observation, app=app, agreement=make_agreement(app, members))


def adopted(observation: EtcdObservation, answers: Answers[Etcd]) -> Decision | None:
    """None once it is taken over, and for an app that is made anew."""
    if observation.app.adoption is None:
        return None
    if observation.ledger is not None and observation.ledger.layout and observation.ledger.identity:
        return None
    if (refusal := _before_asking(observation)) is not None:
        return refusal
    waiting = _waits(observation)
    return (
        _after_asking(observation) or waiting or _otherwise(observation, answers.images) or _take(observation, answers)
    )


def conditions(observation: EtcdObservation, pending: Pending | None = None) -> tuple[tuple[str, str, str, str], ...]:
    """`Adopted`, and what is still to come with the next restart; `pending` is what does beside labels and files."""
    kept, found = names.layout(observation.app), observation.stateful_set
    if observation.app.adoption is None:
        return ()
    if kept is None or found is None or observation.ledger is None or not observation.ledger.identity:
        return (("Adopted", "False", "NotTaken", "nothing was taken over or changed"),)
    others = spec_managers(found)
    also = f"; fields of it are still managed by {', '.join(others)}" if others else ""
    taken = f"StatefulSet {kept.stateful_set} is run as it was found, cluster {observation.ledger.identity}{also}"
    return (("Adopted", "True", "TakenOver", taken), _converged(observation, found, pending))


def let_go(observation: EtcdObservation) -> Decision | None:
    """Who was named only after it was taken over, or came back since, gives up its fields now."""
    found, taken = observation.stateful_set, observation.app.adoption
    others = set(taken.take_from) & set(spec_managers(found)) if taken and found else set()
    if found is None or not others:
        return None
    note = f"{', '.join(sorted(others))} managed fields of the StatefulSet, and git takes them"
    return step(State.PROGRESSING, "Adopting", note, Take(found, None, tuple(sorted(others)), "TakenFrom", note))


def owned_by_others(observation: EtcdObservation) -> Decision | None:
    """The first roll changes the template: not while it is somebody else's."""
    theirs = template_managers(observation.stateful_set) if observation.stateful_set else ()
    if not theirs:
        return None
    return blocked(
        "ManagedByOthers",
        f"members must restart with another template, which is managed by {', '.join(theirs)}; it is changed "
        f"when git says take_from={list(theirs)}",
    )


def as_found(observation: EtcdObservation) -> bool:
    """Whether members are still set up by what was found: no roll since, so they do not read our files.

    What was given back before may carry a mark of ours from then.
    """
    found, kept = observation.stateful_set, names.layout(observation.app)
    return kept is not None and found is not None and template_of(found) == kept.baseline.get("mark", "")


def late(observation: EtcdObservation) -> list[str]:
    """Pods that are still as they were found, while the first roll goes through the others."""
    kept = names.layout(observation.app)
    pods = {pod: observation.world.pod(pod) for pod in observation.pods} if kept is not None else {}
    mark = kept.baseline.get("mark", "") if kept is not None else ""
    return [pod for pod, found in pods.items() if found is not None and template_of(found) == mark]


def changes_over(observation: EtcdObservation) -> bool:
    """Whether a pod that is made now may be made as others had it: then nobody can join."""
    found = observation.stateful_set
    return (
        names.layout(observation.app) is not None
        and found is not None
        and (bool(late(observation)) or under_way(found))
    )


def _converged(observation: EtcdObservation, found: Object, pending: Pending | None) -> tuple[str, str, str, str]:
    current = template_of(found)
    late = [
        pod for pod in observation.pods if as_found(observation) or template_of(observation.world.pod(pod)) != current
    ]
    if not late and pending is None:
        return ("Converged", "True", "Rolled", "members read the operator's files, and pods carry the app's labels")
    if not late and pending is not None and pending.reason != "NextRoll":
        return ("Converged", "False", *pending)
    labels = "pods get the app's labels; members read files instead of flags, which members that join need"
    waits = "; ".join([*([labels] if late else []), *([pending.words] if pending else [])])
    return ("Converged", "False", "NextRoll", f"at the next roll (`fleet roll {observation.app.name}`): {waits}")


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


def _urls(observation: EtcdObservation, kept: Layout) -> tuple[str, str] | Problem:
    """The pattern of all members' peer URLs, and of their client URLs where these name the pod."""
    peers, clients = set(), set()
    for member in members_of(observation) or ():
        pod = _pod_of(observation, member)
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


def _pod_of(observation: EtcdObservation, member: Member) -> str | None:
    hosts = {(urlsplit(url).hostname or "").partition(".")[0] for url in member.peer_urls}
    return next((pod for pod in observation.pods if pod == member.name or pod in hosts), None)


def _before_asking(observation: EtcdObservation) -> Decision | None:
    """What the objects alone say against it."""
    app, found = observation.app, observation.world.get("StatefulSet", _wanted_set(observation.app))
    if found is None:
        return blocked("NothingToAdopt", f"{observation.unfit.message if observation.unfit else 'nothing is there'}")
    if (objection := fitting.claims(app, found)) is not None:
        return blocked(*objection)
    if observation.unfit is not None:
        what, why = found["metadata"]["name"], f"{observation.unfit.field}: {observation.unfit.message}"
        return blocked("CannotAdopt", f"StatefulSet {what} cannot be taken over: {why}")
    kept = names.layout(app)
    objection = fitting.differences(app, found, tls=kept.tls if kept is not None else None)
    return blocked(*objection) if objection is not None else None


def _waits(observation: EtcdObservation) -> Decision | None:
    """Who does not answer may be anybody: nothing is compared with half of the members."""
    silent = [f"{pod}: {describe(observation, pod)}" for pod in observation.pods if pod not in observation.states]
    if silent:
        return wait(State.UNCERTAIN, "Adopting", f"not all members answer, so none is touched: {'; '.join(silent)}", 2)
    if observation.agreement is None:
        return wait(State.UNCERTAIN, "Adopting", "the members have no leader, so none is touched", 2)
    if unwell := [
        f"{pod}: {describe(observation, pod)}" for pod in observation.pods if not observation.is_healthy(pod)
    ]:
        return wait(
            State.UNCERTAIN, "Adopting", f"not all members are well, so none is touched: {'; '.join(unwell)}", 2
        )
    return None


def _after_asking(observation: EtcdObservation) -> Decision | None:
    """What the members themselves say against it."""
    wanted = observation.app.adoption.identity if observation.app.adoption else ""
    identities = {pod: state.identity for pod, state in sorted(observation.states.items())}
    told = ", ".join(f"{pod} of {identity}" for pod, identity in identities.items())
    if len(set(identities.values())) > 1:
        return blocked("SplitBrain", f"the pods are members of different clusters ({told}); nothing is changed")
    if identities and set(identities.values()) != {wanted}:
        return blocked("OtherCluster", f"git means cluster {wanted}, and these are {told}; nothing is changed")
    series = {".".join(map(str, release(state.version).series)) for state in observation.states.values()}
    if series - set(VERSIONS.series):
        runs = ", ".join(sorted(series - set(VERSIONS.series)))
        return blocked("VersionOutOfRange", f"etcd {runs} runs, and this operator knows {', '.join(VERSIONS.series)}")
    wanted_series = ".".join(map(str, release(observation.app.version).series))
    if series and series != {wanted_series}:
        runs = ", ".join(sorted(series))
        return blocked(
            "NotAsDescribed", f"etcd {runs} runs, and git says {observation.app.version}: take it over as it is first"
        )
    members = members_of(observation)
    if members is not None and len(members) != len(observation.pods):
        return blocked(
            "NotAsDescribed",
            f"etcd has {count_noun(len(members), 'member')} in {count_noun(len(observation.pods), 'pod')}",
        )
    return None


def _otherwise(observation: EtcdObservation, images: Mapping[str, str]) -> Decision | None:
    """What git says of members that are certainly the ones it means, and is not so."""
    found, kept = observation.stateful_set, names.layout(observation.app)
    claims = [claim for pod in observation.pods if (claim := observation.claim_of(pod)) is not None]
    beside = fitting.Beside(claims, images)
    objection = (
        fitting.otherwise(observation.app, found, kept, beside) if found is not None and kept is not None else None
    )
    return blocked(*objection) if objection is not None else None


def _take(observation: EtcdObservation, answers: Answers[Etcd]) -> Decision:
    app, found, kept = observation.app, observation.stateful_set, names.layout(observation.app)
    assert found is not None and kept is not None and app.adoption is not None  # noqa: S101 - looked at above
    identity = next(iter(observation.identities))
    places = {pod: MemberRecord("settled", member) for pod, member in observation.members.items()}
    ledger = Ledger("", places, layout=layouts.write(kept))
    message = f"StatefulSet {kept.stateful_set} is taken over as it runs"
    if observation.ledger != ledger:
        return step(State.PROGRESSING, "Adopting", message, answers.record(observation, ledger))
    labels = keeping.labels(app)
    there = found["metadata"].get("labels") or {}
    others = set(app.adoption.take_from) & set(spec_managers(found))
    if not is_held(found, observation.replicas) or others or labels.items() - there.items():
        annotations, spec = held(found, observation.replicas)
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
        State.PROGRESSING,
        "Adopting",
        message,
        answers.record(observation, replace(ledger, identity=identity), "Adopted", note),
    )
