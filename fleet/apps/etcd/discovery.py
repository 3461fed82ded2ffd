"""Recognises etcd in StatefulSets of others, and describes it as an `Etcd`. Pure: who asks the members is elsewhere.

Two things must agree: a container whose process is etcd, and members that answer etcd's protocol with one identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.apps.etcd import found as finding
from fleet.apps.etcd.client import etcdctl
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.layout import Layout
from fleet.kit.adoption.candidate import check_answers, check_objects, check_versions, make_candidate
from fleet.kit.adoption.discovery import Candidate, Member, Question
from fleet.kit.adoption.surroundings import Object, Surroundings
from fleet.kit.adoption.workload import Find
from fleet.kit.driver import Problem
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
        if problem := check_objects(found):
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
        identity = f"{next(iter(said.values())).cluster:x}"
        return make_candidate(
            DRIVER.adoption_rules(), found, around, read, port=read.port, identity=identity, members=_members(said)
        )


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


def _members(said: Mapping[str, _Said]) -> list[Member]:
    return [
        Member(
            pod,
            f"{one.member:x}",
            "leader" if one.leader == one.member else "learner" if one.learner else "follower",
            one.version,
        )
        for pod, one in sorted(said.items())
    ]


def _contradictions(
    found: Object, read: Layout, said: Mapping[str, _Said], listed: Sequence[Mapping[str, Any]]
) -> Problem | None:
    replicas = int(found["spec"].get("replicas", 1))
    pods = [f"{read.stateful_set}-{number}" for number in range(replicas)]
    if problem := check_answers(pods, {pod: f"{one.cluster:x}" for pod, one in said.items()}):
        return problem
    if not all(one.leader for one in said.values()):
        return Problem("members", "they have no leader")
    if problem := check_versions(DRIVER, [one.version for one in said.values()]):
        return problem
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


DISCOVERY = EtcdDiscovery()
