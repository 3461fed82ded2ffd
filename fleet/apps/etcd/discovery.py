"""Recognises etcd in StatefulSets of others, and describes it as an `Etcd`. Pure: who asks the members is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from fleet.apps.etcd import found as finding
from fleet.apps.etcd.client import endpoint_of, etcdctl, flags_as_found
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.asked import AskedDiscovery, ListedAnswer, MemberAnswer
from fleet.kit.adoption.discovery import Question
from fleet.kit.adoption.workload import Find
from fleet.kit.driver import Problem
from fleet.text import count_noun

Object = dict[str, Any]


class EtcdDiscovery(AskedDiscovery[Etcd, Layout]):
    engine = "etcd"

    def recognises(self, found: Object, find: Find) -> str | None:
        process = finding.SETTINGS.find_process(found, find)
        if process is None:
            return None
        return f"container {process.container} " + ("starts etcd" if process.program else "is set up as etcd is")

    def questions(self, found: Object, find: Find) -> Sequence[Question] | Problem:
        read = finding.layout(found, find)
        if isinstance(read, Problem):
            return read
        asked = (*etcdctl(read), f"--endpoints={endpoint_of(read)}", *flags_as_found(read), "--write-out=json")
        return [
            Question(read.container, (*asked, "endpoint", "status")),
            Question(read.container, (*asked, "member", "list")),
        ]

    def read_member(self, text: str) -> MemberAnswer:
        status = orjson.loads(text)[0]["Status"]
        header, leader = status["header"], int(status.get("leader", 0))
        cluster, member = int(header["cluster_id"]), int(header["member_id"])
        role = "leader" if leader == member else "learner" if status.get("isLearner") else "follower"
        return MemberAnswer(f"{cluster:x}", f"{member:x}", role, str(status["version"]), bool(leader))

    def read_list(self, text: str) -> Sequence[ListedAnswer]:
        members = orjson.loads(text)["members"]
        return [ListedAnswer(f"{int(member['ID']):x}", tuple(member.get("peerURLs", ()))) for member in members]

    def port(self, layout: Layout) -> int:
        return layout.port

    def check_size(self, replicas: int) -> Problem | None:
        if replicas % 2:
            return None
        members = count_noun(replicas, "member")
        return Problem("members", f"it has {members}, and an app has an odd number", "add or remove one first")


DISCOVERY = EtcdDiscovery(DRIVER.adoption_rules())
