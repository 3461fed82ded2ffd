"""etcd's servers in memory: what they do with their files and volumes, for trials of the operator's decisions.

A server does what etcd does as far as an operator can tell: it begins a cluster, joins one or goes on with its data as
its file says, ends with etcd's own words where it cannot, elects, replicates and changes its list of members by a
majority alone. Each tick a client writes one number per cluster, which is acknowledged when a majority has it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from fleet.apps.etcd.engine.protocol import Alarm, Endpoint, Member, MemberStatus, Refused, Unreachable
from fleet.kit.simulate.cluster import Container, Disk
from fleet.kit.workload.settings_text import read_settings

NEWEST = {"3.4": "3.4.37", "3.5": "3.5.35", "3.6": "3.6.16"}


@dataclass(slots=True)
class _Entry:
    """A member on the list of a cluster."""

    number: int
    urls: tuple[str, ...]
    name: str = ""
    learner: bool = False


@dataclass(slots=True)
class _Cluster:
    number: int
    entries: dict[int, _Entry]
    leader: int = 0
    acknowledged: int = 0  # the highest number that a client was told is written
    downgrading_to: str = ""


@dataclass(slots=True)
class _EtcdServer:
    pod: str
    member: int
    cluster: _Cluster
    volume: Disk
    version: str
    silent: bool = False


@dataclass(slots=True)
class EtcdServers:
    """All servers of a trial, by pod; also the client that an engine speaks to them with."""

    clusters: dict[int, _Cluster] = field(default_factory=dict)
    servers: dict[str, _EtcdServer] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)  # pods that the operator does not reach
    broken: set[str] = field(default_factory=set)  # images with which no server starts
    elections: int = 0

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
        version = _version(container.image)
        data = volume.content
        if "member" not in data:
            if words := self._begin(container.pod, settings, volume):
                return words
        elif settings.get("force-new-cluster"):
            cluster = self.clusters[data["cluster"]]
            cluster.entries = {data["member"]: cluster.entries[data["member"]]}
            cluster.entries[data["member"]].learner = False
        cluster = self.clusters[data["cluster"]]
        if data["member"] not in cluster.entries:
            return _fatal("the member has been permanently removed from the cluster", "")
        cluster.entries[data["member"]].name = container.pod
        self.servers[container.pod] = _EtcdServer(container.pod, data["member"], cluster, volume, version)
        return ""

    def _begin(self, pod: str, settings: Mapping[str, Any], volume: Disk) -> str:
        """Begin or join a cluster on an empty volume, as the file says; return why that is not possible, or ""."""
        listed = dict(part.split("=", 1) for part in str(settings["initial-cluster"]).split(","))
        if pod not in listed:
            return _fatal("discovery failed", "couldn't find local name in the initial cluster configuration")
        own = tuple(str(settings["initial-advertise-peer-urls"]).split(","))
        if settings["initial-cluster-state"] == "new":
            number = _number(str(settings["initial-cluster-token"]), *sorted(listed.values()))
            members = {_number(str(number), url): url for url in listed.values()}
            cluster = self.clusters.setdefault(
                number, _Cluster(number, {one: _Entry(one, (url,)) for one, url in members.items()})
            )
            member = _number(str(number), listed[pod])
            if cluster.acknowledged and cluster.entries.get(member, _Entry(0, ())).name:
                return _fatal(f"member {member:x} has already been bootstrapped", "")
        else:
            found = [
                (cluster, entry)
                for cluster in self.clusters.values()
                for entry in cluster.entries.values()
                if set(entry.urls) & set(own) and self._runs(cluster)
            ]
            if not found:
                return _fatal("error validating peerURLs", "unmatched member while checking PeerURLs")
            cluster, entry = found[0]
            if len(cluster.entries) != len(listed):
                return _fatal("error validating peerURLs", "member count is unequal")
            member = entry.number
        volume.content.update(member=member, cluster=cluster.number, log=0)
        return ""

    def stop(self, pod: str) -> None:
        self.servers.pop(pod, None)

    def is_ready(self, pod: str) -> bool:
        server = self.servers.get(pod)
        if server is None or server.member not in server.cluster.entries:
            return False
        return bool(server.cluster.leader) and not server.cluster.entries[server.member].learner

    def tick(self) -> None:
        for cluster in self.clusters.values():
            running = {server.member: server for server in self.servers.values() if server.cluster is cluster}
            voters = [number for number, entry in cluster.entries.items() if not entry.learner]
            there = [number for number in voters if number in running]
            if len(there) <= len(voters) // 2:
                cluster.leader = 0
                continue
            if cluster.leader not in there:
                self.elections += 1
                cluster.leader = max(there, key=lambda number: (running[number].volume.content["log"], -number))
            written = running[cluster.leader].volume.content["log"] + 1
            for number, server in running.items():
                if number in cluster.entries:
                    server.volume.content["log"] = written
            cluster.acknowledged = max(cluster.acknowledged, written)

    def lost_writes(self) -> int:
        """Return how many acknowledged writes no running majority has any more."""
        lost = 0
        for cluster in self.clusters.values():
            logs = [server.volume.content["log"] for server in self.servers.values() if server.cluster is cluster]
            lost += max(0, cluster.acknowledged - max(logs, default=0)) if logs else 0
        return lost

    def is_served(self) -> bool:
        """Return whether a client's write would be acknowledged by a majority of the one cluster that there is."""
        counts = []
        for cluster in self.clusters.values():
            voters = [number for number, entry in cluster.entries.items() if not entry.learner]
            running = {server.member for server in self.servers.values() if server.cluster is cluster}
            counts.append(sum(number in running for number in voters) > len(voters) // 2)
        return counts == [True]

    def membership(self) -> Mapping[str, str]:
        """Return each member by its pod, with whether it votes."""
        return {
            entry.name or f"nameless {number:x}": "learner" if entry.learner else "voter"
            for cluster in self.clusters.values()
            for number, entry in cluster.entries.items()
        }

    def _runs(self, cluster: _Cluster) -> bool:
        return any(server.cluster is cluster for server in self.servers.values())

    # What an engine asks, as `protocol.Etcd` has it

    def guarded(self, allowed: Callable[[], None]) -> Self:
        return self

    async def close(self) -> None:
        """Nothing is open."""

    async def status(self, endpoint: Endpoint) -> MemberStatus:
        server = self._server(endpoint)
        cluster, log = server.cluster, server.volume.content["log"]
        entry = cluster.entries.get(server.member)
        return MemberStatus(
            cluster_id=cluster.number,
            member_id=server.member,
            leader=cluster.leader,
            version=server.version,
            raft_index=log,
            raft_applied_index=log,
            raft_term=1,
            db_size=1 << 20,
            db_size_in_use=1 << 19,
            is_learner=entry is not None and entry.learner,
            errors=(),
            revision=log,
            downgrading_to=cluster.downgrading_to,
        )

    async def members(self, endpoint: Endpoint, linearizable: bool = True) -> tuple[Member, ...]:
        cluster = self._asked(endpoint).cluster
        return tuple(
            Member(entry.number, entry.name, entry.urls, (), entry.learner) for entry in cluster.entries.values()
        )

    async def revision(self, endpoint: Endpoint) -> int:
        return int(self._asked(endpoint).volume.content["log"])

    async def add_learner(self, endpoint: Endpoint, *peer_urls: str) -> Member:
        cluster = self._asked(endpoint).cluster
        if any(set(entry.urls) & set(peer_urls) for entry in cluster.entries.values()):
            raise Refused(endpoint, 9, "etcdserver: Peer URLs already exists")
        if any(entry.learner for entry in cluster.entries.values()):
            raise Refused(endpoint, 9, "etcdserver: too many learner members in cluster")
        self._needs_health(endpoint, cluster)
        number = _number(str(cluster.number), *peer_urls, str(len(cluster.entries)), str(cluster.acknowledged))
        cluster.entries[number] = _Entry(number, peer_urls, learner=True)
        return Member(number, "", peer_urls, (), True)

    async def promote(self, endpoint: Endpoint, member_id: int) -> None:
        cluster = self._asked(endpoint).cluster
        entry = cluster.entries.get(member_id)
        if entry is None:
            raise Refused(endpoint, 5, "etcdserver: member not found")
        if not entry.learner:
            raise Refused(endpoint, 9, "etcdserver: can only promote a learner member")
        running = [server for server in self.servers.values() if server.member == member_id]
        if not running or running[0].volume.content["log"] < cluster.acknowledged:
            ready = "etcdserver: can only promote a learner member which is in sync with leader"
            raise Refused(endpoint, 9, ready)
        entry.learner = False

    async def remove(self, endpoint: Endpoint, member_id: int) -> None:
        cluster = self._asked(endpoint).cluster
        if member_id not in cluster.entries:
            raise Refused(endpoint, 5, "etcdserver: member not found")
        self._needs_health(endpoint, cluster, without=member_id)
        del cluster.entries[member_id]
        if cluster.leader == member_id:
            cluster.leader = 0

    async def move_leader(self, endpoint_of_leader: Endpoint, to: int) -> None:
        server = self._asked(endpoint_of_leader)
        if server.cluster.leader != server.member:
            raise Refused(endpoint_of_leader, 9, "etcdserver: not leader")
        server.cluster.leader = to

    async def update_peer_urls(self, endpoint: Endpoint, member_id: int, peer_urls: tuple[str, ...]) -> None:
        self._asked(endpoint).cluster.entries[member_id].urls = peer_urls

    async def compact(self, endpoint: Endpoint, revision: int, physical: bool = True) -> None:
        self._asked(endpoint)

    async def defragment(self, endpoint: Endpoint, seconds: float = 120.0) -> None:
        self._server(endpoint)

    async def disarm(self, endpoint: Endpoint, alarm: Alarm) -> None:
        self._asked(endpoint)

    async def downgrade(self, endpoint: Endpoint, action: str, version: str) -> None:
        self._asked(endpoint).cluster.downgrading_to = version if action == "enable" else ""

    def _server(self, endpoint: Endpoint) -> _EtcdServer:
        pod = endpoint.name.partition(".")[0]
        server = self.servers.get(pod)
        if server is None or pod in self.silent:
            raise Unreachable(endpoint, "connection refused" if server is None else "no answer in 2 s")
        return server

    def _asked(self, endpoint: Endpoint) -> _EtcdServer:
        """Return the server of a request that needs a majority."""
        server = self._server(endpoint)
        entry = server.cluster.entries.get(server.member)
        if entry is None or not server.cluster.leader:
            raise Unreachable(endpoint, "no answer in 2 s")
        if entry.learner:
            raise Refused(endpoint, 12, "etcdserver: rpc not supported for learner")
        return server

    def _needs_health(self, endpoint: Endpoint, cluster: _Cluster, without: int = 0) -> None:
        """As etcd's strict check of reconfigurations: a majority of what would be left must be started."""
        running = {server.member for server in self.servers.values() if server.cluster is cluster}
        voters = [number for number, entry in cluster.entries.items() if not entry.learner and number != without]
        if sum(number in running for number in voters) <= len(voters) // 2:
            raise Refused(endpoint, 9, "etcdserver: re-configuration failed due to not enough started members")


def _settings(container: Container) -> Mapping[str, Any] | None:
    flag = next((word for word in container.arguments if word.startswith("--config-file=")), "")
    text = container.files.get(flag.rpartition("/")[2])
    return read_settings(text) if text is not None else None


def _version(image: str) -> str:
    found = re.search(r"(\d+\.\d+)(\.\d+)?", image)
    if found is None:
        return "3.5.35"
    return found[0] if found[2] else NEWEST.get(found[1], f"{found[1]}.0")


def _fatal(message: str, error: str) -> str:
    return f'{{"level":"fatal","msg":"{message}","error":"{error}"}}'


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("|".join(parts).encode()).digest()[:8], "big") or 1
