"""etcd's servers in memory: what they do with their files, and in which words they refuse, for trials of the operator's
decisions. How they agree, elect and replicate is the kit's (`fleet.kit.simulate.consensus`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.apps.etcd.engine.protocol import (
    Alarm,
    AlarmKind,
    Endpoint,
    Member,
    MemberStatus,
    Refused,
)
from fleet.apps.etcd.versions import NEWEST, VERSIONS
from fleet.kit.simulate.cluster import Container, Disk
from fleet.kit.simulate.consensus import (
    ConsensusCluster,
    ConsensusServer,
    ConsensusServers,
    ListedMember,
    ListRefusedError,
    Refusal,
    make_number,
)
from fleet.kit.workload.settings_text import read_settings

_WORDS: Mapping[Refusal, tuple[int, str]] = {  # gRPC's code, and etcd's words
    "known": (9, "Peer URLs already exists"),
    "learning": (9, "too many learner members in cluster"),
    "missing": (5, "member not found"),
    "voter": (9, "can only promote a learner member"),
    "behind": (9, "can only promote a learner member which is in sync with leader"),
    "not leader": (9, "not leader"),
    "learner": (12, "rpc not supported for learner"),
    "unhealthy": (9, "re-configuration failed due to not enough started members"),
}


@dataclass(slots=True)
class EtcdServers(ConsensusServers):
    """All servers of a trial, by pod; also the client that an engine speaks to them with."""

    alarms: set[Alarm] = field(default_factory=set)

    def raise_alarm(self, kind: AlarmKind, pod: str = "") -> None:
        """Raise an alarm about the member in a pod, or about nobody that is known."""
        self.alarms.add(Alarm(self.servers[pod].member if pod else 0, kind))
        self.read_only = True

    def end_alarms(self) -> None:
        self.alarms.clear()
        self.read_only = False

    # What a kubelet learns

    def start(self, container: Container) -> str:
        if container.image in self.broken:
            return _fatal("unknown flag", "exec format error")
        settings = _settings(container)
        if settings is None:
            return _fatal("open the configuration", "no such file or directory")
        volume = container.volume
        if volume is None:
            return _fatal("create the data directory", "no such file or directory")
        if "member" not in volume.content:
            if words := self._begin(container.pod, settings, volume):
                return words
        elif settings.get("force-new-cluster"):
            self.keep_only(self.clusters[volume.content["cluster"]], volume.content["member"])
        if not self.run(container.pod, volume, VERSIONS.named_in(container.image) or NEWEST["3.5"]):
            return _fatal("the member has been permanently removed from the cluster", "")
        return ""

    def _begin(self, pod: str, settings: Mapping[str, Any], volume: Disk) -> str:
        """Begin or join a cluster on an empty volume, as the file says; return why that is not possible, or ""."""
        listed = dict(part.split("=", 1) for part in str(settings["initial-cluster"]).split(","))
        if pod not in listed:
            return _fatal("discovery failed", "couldn't find local name in the initial cluster configuration")
        if settings["initial-cluster-state"] == "new":
            number = make_number(str(settings["initial-cluster-token"]), *sorted(listed.values()))
            members = {make_number(str(number), url): url for url in listed.values()}
            founders = {member: ListedMember(member, (url,)) for member, url in members.items()}
            cluster = self.clusters.setdefault(number, ConsensusCluster(number, founders))
            member = make_number(str(number), listed[pod])
            if cluster.acknowledged and member in cluster.listed and cluster.listed[member].name:
                return _fatal(f"member {member:x} has already been bootstrapped", "")
        else:
            known = self.find_member(set(str(settings["initial-advertise-peer-urls"]).split(",")))
            if known is None:
                return _fatal("error validating peerURLs", "unmatched member while checking PeerURLs")
            cluster, member = known[0], known[1].number
            if len(cluster.listed) != len(listed):
                return _fatal("error validating peerURLs", "member count is unequal")
        self.begin(volume, cluster, member)
        return ""

    # What an engine asks, as `protocol.Etcd` has it

    async def status(self, endpoint: Endpoint) -> MemberStatus:
        server = self.server_at(endpoint)
        cluster, member = server.cluster, server.cluster.listed.get(server.member)
        is_full = any(alarm.kind == "NOSPACE" for alarm in self.alarms) and not server.volume.content.get(
            "defragmented"
        )
        return MemberStatus(
            cluster_id=cluster.number,
            member_id=server.member,
            leader=0 if server.pod in self.isolated else cluster.leader,
            version=server.version,
            raft_index=server.log,
            raft_applied_index=server.log,
            raft_term=1,
            db_size=2 << 30 if is_full else 1 << 20,
            db_size_in_use=1 << 19,
            is_learner=member is not None and member.learner,
            errors=tuple(sorted(f"memberID:{alarm.member_id} alarm:{alarm.kind}" for alarm in self.alarms)),
            revision=server.log,
            downgrading_to=cluster.settings.get("downgrade", ""),
        )

    async def members(self, endpoint: Endpoint, linearizable: bool = True) -> tuple[Member, ...]:
        with self._asked(endpoint) as server:
            return tuple(map(_member, self.list_members(server.cluster)))

    async def revision(self, endpoint: Endpoint) -> int:
        with self._asked(endpoint) as server:
            return server.log

    async def add_learner(self, endpoint: Endpoint, *peer_urls: str) -> Member:
        with self._asked(endpoint) as server:
            announced = _member(self.announce_member(server.cluster, *peer_urls))
        self.answer(endpoint)
        return announced

    async def promote(self, endpoint: Endpoint, member_id: int) -> None:
        with self._asked(endpoint) as server:
            self.promote_member(server.cluster, member_id)
        self.answer(endpoint)

    async def remove(self, endpoint: Endpoint, member_id: int) -> None:
        with self._asked(endpoint) as server:
            self.remove_member(server.cluster, member_id)
        self.answer(endpoint)

    async def move_leader(self, endpoint_of_leader: Endpoint, to: int) -> None:
        with self._asked(endpoint_of_leader) as server:
            self.transfer_leadership(server, to)
        self.answer(endpoint_of_leader)

    async def update_peer_urls(self, endpoint: Endpoint, member_id: int, peer_urls: tuple[str, ...]) -> None:
        with self._asked(endpoint) as server:
            server.cluster.listed[member_id].addresses = peer_urls

    async def compact(self, endpoint: Endpoint, revision: int, physical: bool = True) -> None:
        with self._asked(endpoint):
            pass  # nothing is old

    async def defragment(self, endpoint: Endpoint, seconds: float = 120.0) -> None:
        self.server_at(endpoint).volume.content["defragmented"] = True

    async def disarm(self, endpoint: Endpoint, alarm: Alarm) -> None:
        with self._asked(endpoint):
            self.alarms.discard(alarm)
            self.read_only = bool(self.alarms)

    async def downgrade(self, endpoint: Endpoint, action: str, version: str) -> None:
        with self._asked(endpoint) as server:
            server.cluster.settings["downgrade"] = version if action == "enable" else ""

    @contextlib.contextmanager
    def _asked(self, endpoint: Endpoint) -> Iterator[ConsensusServer]:
        """Find the server of a request that needs a majority. Refusals are raised in etcd's words."""
        try:
            yield self.server_of_majority(endpoint)
        except ListRefusedError as error:
            code, words = _WORDS[error.refusal]
            raise Refused(endpoint, code, f"etcdserver: {words}") from error


def _member(listed: ListedMember) -> Member:
    return Member(listed.number, listed.name, listed.addresses, (), listed.learner)


def _settings(container: Container) -> Mapping[str, Any] | None:
    flag = next((word for word in container.arguments if word.startswith("--config-file=")), "")
    text = container.files.get(flag.rpartition("/")[2])
    return read_settings(text) if text is not None else None


def _fatal(message: str, error: str) -> str:
    return f'{{"level":"fatal","msg":"{message}","error":"{error}"}}'
