"""Recognises etcd in StatefulSets of others, and describes it as an `Etcd`. Pure: who asks the members is elsewhere.

Two things must agree: a container whose process is etcd, and members that answer etcd's protocol with one identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from fleet.apps.etcd import found as finding
from fleet.apps.etcd.client import etcdctl
from fleet.apps.etcd.described import container_of, described
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.versions import VERSIONS
from fleet.errors import ConfigurationError
from fleet.kit.adoption.discovery import Candidate, Member, Question
from fleet.kit.adoption.hold import is_updating
from fleet.kit.adoption.managers import claimed_by, managers_in_the_way, template_managers
from fleet.kit.adoption.surroundings import Object, Surroundings, beside, services_of, whereabouts
from fleet.kit.adoption.unmanaged import unsaid
from fleet.kit.adoption.workload import Find
from fleet.kit.driver import Problem
from fleet.model.resource import Adopt, Options
from fleet.model.types import release
from fleet.text import count_noun


@dataclass(frozen=True, slots=True)
class _Said:
    """What one member answered."""

    cluster: int
    member: int
    leader: int
    version: str
    learner: bool


class EtcdDiscovery:
    engine = "etcd"

    def recognises(self, found: Object, find: Find) -> str | None:
        process = finding.candidate(found, find)
        if process is None:
            return None
        return f"container {process.container} " + ("starts etcd" if process.program else "is set up as etcd is")

    def questions(self, found: Object, find: Find) -> Sequence[Question] | Problem:
        read = finding.layout(found, find)
        if isinstance(read, Problem):
            return read
        flags = {"ca": "--cacert", "cert": "--cert", "key": "--key"}
        certificates = [f"{flags[name]}={path}" for name, path in read.paths.items()]
        endpoint = f"--endpoints={read.client_url}" if "{pod}" in read.client_url else f"--endpoints={_beside(read)}"
        asked = (*etcdctl(read), endpoint, *certificates, "--write-out=json")
        return [
            Question(read.container, (*asked, "endpoint", "status")),
            Question(read.container, (*asked, "member", "list")),
        ]

    def understands(
        self, found: Object, around: Surroundings, answers: Mapping[str, Sequence[str]]
    ) -> Candidate | Problem:
        read = finding.layout(found, around.find)
        if isinstance(read, Problem):
            return read
        if problem := _unfit(found):
            return problem
        said: dict[str, _Said] = {}
        for pod, texts in answers.items():
            try:
                said[pod] = _status(texts[0])
            except (ValueError, LookupError, TypeError):
                return Problem("protocol", f"{pod} does not answer as etcd does: {_short(texts[0] if texts else '')}")
        listed = _listed(answers)
        if problem := _contradictions(found, read, said, [] if isinstance(listed, Problem) else listed):
            return problem
        if isinstance(listed, Problem):
            return listed
        made = _candidate(found, around, read, said)
        return made if isinstance(made, Problem) else replace(made, kept=(*made.kept, *beside(found, around, made.app)))


def _beside(read: Layout) -> str:
    return f"{'https' if read.tls else 'http'}://127.0.0.1:{read.port}"


def _status(text: str) -> _Said:
    status = orjson.loads(text)[0]["Status"]
    header = status["header"]
    return _Said(
        int(header["cluster_id"]),
        int(header["member_id"]),
        int(status.get("leader", 0)),
        str(status["version"]),
        bool(status.get("isLearner")),
    )


def _listed(answers: Mapping[str, Sequence[str]]) -> list[Mapping[str, Any]] | Problem:
    """The members as any of them has the list: without a majority none can say it."""
    said = ""
    for texts in answers.values():
        said = texts[1] if len(texts) > 1 else ""
        try:
            found: list[Mapping[str, Any]] = orjson.loads(said)["members"]
        except (ValueError, LookupError, TypeError):
            continue
        return found
    return Problem("members", f"none of them says who is a member, so there may be no majority: {_short(said)}")


def _short(text: str) -> str:
    return " ".join(text.split())[:120] or "nothing"


def _unfit(found: Object) -> Problem | None:
    """What its objects say against it, before anybody is asked."""
    own = found["metadata"]
    if whose := claimed_by(found):
        return Problem("owner", f"it belongs to {whose} already")
    if owner := next((one for one in own.get("ownerReferences") or () if one.get("controller")), None):
        return Problem(
            "owner",
            f"it is run by {owner['kind']} {owner['name']}, whose operator would undo what ours does",
            f"stop that operator and delete the {owner['kind']} with --cascade=orphan first",
        )
    if is_updating(found):
        return Problem("update", "it has pods of two revisions", "finish that update first")
    return None


def _contradictions(
    found: Object, read: Layout, said: Mapping[str, _Said], listed: Sequence[Mapping[str, Any]]
) -> Problem | None:
    replicas = int(found["spec"].get("replicas", 1))
    pods = [f"{read.stateful_set}-{number}" for number in range(replicas)]
    if silent := [pod for pod in pods if pod not in said]:
        return Problem("members", f"{', '.join(silent)} could not be asked, so it is not certain what they are")
    clusters = {pod: f"{one.cluster:x}" for pod, one in sorted(said.items())}
    if len(set(clusters.values())) > 1:
        told = ", ".join(f"{pod} of {cluster}" for pod, cluster in clusters.items())
        return Problem("identity", f"its pods are members of different clusters: {told}")
    if not all(one.leader for one in said.values()):
        return Problem("members", "they have no leader")
    if unknown := sorted(
        {one.version for one in said.values()} - {v for v in _versions(said) if _series(v) in VERSIONS.series}
    ):
        return Problem("version", f"etcd {', '.join(unknown)} runs, and fleet knows {', '.join(VERSIONS.series)}")
    if len({_series(one.version) for one in said.values()}) > 1:
        return Problem("version", "its members run two versions", "finish that upgrade first")
    if strangers := [one for one in listed if int(one["ID"]) not in {other.member for other in said.values()}]:
        urls = ", ".join(url for one in strangers for url in one.get("peerURLs", ()))
        return Problem(
            "members", f"{urls} is a member too and no pod of {read.stateful_set}", "one app is one StatefulSet"
        )
    if replicas % 2 == 0:
        return Problem(
            "members",
            f"it has {count_noun(replicas, 'member')}, and an app has an odd number",
            "add or remove one first",
        )
    return None


def _versions(said: Mapping[str, _Said]) -> set[str]:
    return {one.version for one in said.values()}


def _series(version: str) -> str:
    try:
        return ".".join(map(str, release(version).series))
    except ValueError:
        return version


def _candidate(found: Object, around: Surroundings, read: Layout, said: Mapping[str, _Said]) -> Candidate | Problem:
    identity = f"{next(iter(said.values())).cluster:x}"
    version = min(_versions(said), key=release)
    kept: list[str] = []
    try:
        fields = described(found, read, around.claims, kept)
        opts = Options(adopt=_adopt(found, around, read, identity))
        app = _app(found, read, {**fields, "opts": opts}, version, kept)
    except ConfigurationError as problem:
        return Problem(problem.field or "spec", problem.message, problem.hint)
    members = tuple(
        Member(
            pod,
            f"{one.member:x}",
            "leader" if one.leader == one.member else "learner" if one.learner else "follower",
            one.version,
        )
        for pod, one in sorted(said.items())
    )
    facts = {
        "data": f"{read.config['data-dir']} on claims {read.claim}-{read.stateful_set}-N",
        "members know each other as": read.peer_url,
        "clients": app.connection.url,
        "credentials": f"Secret {read.files['cert'][0]}" if read.tls else "none: no TLS",
        **whereabouts(found, around),
    }
    return Candidate(app, identity, version, members, facts, tuple(kept), _managers(found))


def _app(found: Object, read: Layout, fields: dict[str, Any], version: str, kept: list[str]) -> Etcd:
    own = found["metadata"]
    container = container_of(found, read)
    made = Etcd(own["name"], namespace=own["namespace"], version=version)
    if container["image"] != DRIVER.image(made, {}):
        fields["image"] = container["image"]
    secrets = {secret for secret, _ in read.files.values()}
    kept += unsaid(found, read.container, read.claim, prefix=finding.PREFIX, secrets=secrets)
    return Etcd(own["name"], namespace=own["namespace"], version=version, **fields)


def _adopt(found: Object, around: Surroundings, read: Layout, identity: str) -> Adopt:
    container = container_of(found, read)
    named = {
        str(port["name"])
        for port in container.get("ports") or ()
        if port["containerPort"] == read.port and "name" in port
    }
    given: dict[str, Any] = {"identity": identity}
    leading = services_of(found, around, frozenset({read.port, *named}))
    service = leading[0]["metadata"]["name"] if leading else found["spec"].get("serviceName")
    if service and service != found["metadata"]["name"]:
        given["service"] = service
    ports = [
        port
        for one in leading[:1]
        for port in one["spec"]["ports"]
        if port.get("targetPort", port["port"]) in {read.port, *named}
    ]
    port = ports[0]["port"] if ports else read.port
    if port != Etcd.port:
        given["port"] = port
    if in_the_way := {*managers_in_the_way(found), *template_managers(found)}:
        given["take_from"] = sorted(in_the_way)
    return Adopt(**given)


def _managers(found: Object) -> tuple[str, ...]:
    entries = found["metadata"].get("managedFields") or ()
    return tuple(sorted({str(one["manager"]) for one in entries if not one.get("subresource")}))


DISCOVERY = EtcdDiscovery()
