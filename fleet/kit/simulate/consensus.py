"""Servers of an engine whose members agree by majority, in memory: what they do with their volumes and with the list of
members, for trials of the operator's decisions.

A cluster has a leader only while a majority of its voters runs, and each tick a client writes one number, which is
acknowledged when a majority has it. What a server does with its configuration when it starts, and in which words it
says no, is for the engine to say, which derives from `ConsensusServers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from fleet.kit.protocol.endpoint import Endpoint, Unreachable
from fleet.kit.simulate.cluster import Disk

STRANGER = "stranger"
LOG = "log"  # on a volume: the highest number that its member has
Refusal = Literal[
    "known", "learner", "learning", "missing", "voter", "behind", "unhealthy", "not leader"
]  # why the list is not changed


class ListRefusedError(Exception):
    """The cluster does not change its list of members, or its leader."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


@dataclass(slots=True)
class ListedMember:
    """A member on the list of a cluster; it has no name until it has started for the first time."""

    number: int
    addresses: tuple[str, ...]
    name: str = ""
    learner: bool = False


@dataclass(slots=True)
class ConsensusCluster:
    """What the members of one cluster agree on."""

    number: int
    listed: dict[int, ListedMember]
    leader: int = 0
    acknowledged: int = 0  # the highest number that a client was told is written
    settings: dict[str, str] = field(default_factory=dict)  # further ones, in the engine's words

    @property
    def voters(self) -> list[int]:
        return [number for number, member in self.listed.items() if not member.learner]


@dataclass(slots=True)
class ConsensusServer:
    """A server that runs: a member with its volume."""

    pod: str
    member: int
    cluster: ConsensusCluster
    volume: Disk
    version: str

    @property
    def log(self) -> int:
        return int(self.volume.content[LOG])


@dataclass(slots=True)
class ConsensusServers:
    """All servers of a trial, by pod."""

    clusters: dict[int, ConsensusCluster] = field(default_factory=dict)
    servers: dict[str, ConsensusServer] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)  # pods that the operator does not reach
    broken: set[str] = field(default_factory=set)  # images with which no server starts
    isolated: set[str] = field(default_factory=set)  # pods that other members do not reach
    answers_late: bool = False  # requests are carried out, and nobody waits for the answer any more
    unlisted: set[str] = field(default_factory=set)  # pods that lists of members leave out, though they are members
    read_only: bool = False  # an alarm is on: no write is taken, and no member is ready
    elections: int = 0

    # What a kubelet learns

    def run(self, pod: str, volume: Disk, version: str) -> bool:
        """Start the member that a volume holds; return False if its cluster has taken it off the list."""
        cluster, member = self.clusters[volume.content["cluster"]], volume.content["member"]
        if member not in cluster.listed:
            return False
        cluster.listed[member].name = pod
        self.servers[pod] = ConsensusServer(pod, member, cluster, volume, version)
        return True

    def begin(self, volume: Disk, cluster: ConsensusCluster, member: int) -> None:
        """Make an empty volume that of a member."""
        volume.content.update(member=member, cluster=cluster.number, **{LOG: 0})

    def stop(self, pod: str) -> None:
        self.servers.pop(pod, None)

    def is_ready(self, pod: str) -> bool:
        """Return whether a member serves: it votes, and its cluster has a leader."""
        server = self.servers.get(pod)
        if server is None or self.read_only or pod in self.isolated:
            return False
        return bool(server.cluster.leader) and server.member in server.cluster.voters

    def tick(self) -> None:
        """Let every cluster elect a leader where it needs one, and write one number where it can."""
        for cluster in self.clusters.values():
            running = {server.member: server for server in self._in_touch(cluster)}
            present = [number for number in cluster.voters if number in running]
            if len(present) <= len(cluster.voters) // 2:
                cluster.leader = 0
                continue
            if cluster.leader not in present:
                self.elections += 1
                cluster.leader = max(present, key=lambda number: (running[number].log, -number))
            written = running[cluster.leader].log + 1
            for number, server in running.items():
                if number in cluster.listed:
                    server.volume.content[LOG] = written
            if not self.read_only:
                cluster.acknowledged = max(cluster.acknowledged, written)

    def mix_up(self, pod: str) -> None:
        """Give a pod's volume the data of a member of another cluster."""
        server = self.servers[pod]
        number = make_number("another", str(server.cluster.number))
        listed = ListedMember(make_number("another", pod), ("elsewhere",), pod)
        self.clusters[number] = ConsensusCluster(number, {listed.number: listed})
        server.volume.content.update(member=listed.number, cluster=number)

    def add_stranger(self, address: str) -> None:
        """Add a member that is none of the app's, as a person does by hand."""
        for cluster in self.clusters.values():
            number = make_number("stranger", address)
            cluster.listed[number] = ListedMember(number, (address,), STRANGER, learner=True)

    def remove_strangers(self) -> None:
        for cluster in self.clusters.values():
            cluster.listed = {number: member for number, member in cluster.listed.items() if member.name != STRANGER}

    # What a trial asks

    def lost_writes(self) -> int:
        """Return how many acknowledged writes no running majority has any more."""
        lost = 0
        for cluster in self.clusters.values():
            logs = [server.log for server in self._servers_of(cluster)]
            lost += max(0, cluster.acknowledged - max(logs, default=0)) if logs else 0
        return lost

    def is_served(self) -> bool:
        """Return whether a client's write would be acknowledged by a majority of the one cluster that there is."""
        return [self._is_majority_running(cluster) for cluster in self.clusters.values()] == [not self.read_only]

    def membership(self) -> Mapping[str, str]:
        """Return each member by its pod, with whether it votes."""
        return {
            member.name or f"nameless {number:x}": "learner" if member.learner else "voter"
            for cluster in self.clusters.values()
            for number, member in cluster.listed.items()
        }

    # What an engine asks

    def guarded(self, allowed: Callable[[], None]) -> Self:
        """Return the client of a process that leads, as real ones do: here nobody else does."""
        return self

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def answer(self, endpoint: Endpoint) -> None:
        """Answer a request that was carried out. Raises Unreachable where nobody waits for that any more."""
        if self.answers_late:
            raise Unreachable(endpoint, "no answer in 2 s")

    def server_at(self, endpoint: Endpoint) -> ConsensusServer:
        """Return the server behind an endpoint. Raises Unreachable if there is none, or it is silent."""
        pod = endpoint.name.partition(".")[0]
        server = self.servers.get(pod)
        if server is None or pod in self.silent:
            raise Unreachable(endpoint, "connection refused" if server is None else "no answer in 2 s")
        return server

    def server_of_majority(self, endpoint: Endpoint) -> ConsensusServer:
        """Return the server of a request that needs a majority. Raises Unreachable where it would wait for one in vain,
        and ListRefusedError from a learner."""
        server = self.server_at(endpoint)
        member = server.cluster.listed.get(server.member)
        if member is None or not server.cluster.leader or server.pod in self.isolated:
            raise Unreachable(endpoint, "no answer in 2 s")
        if member.learner:
            raise ListRefusedError("learner")
        return server

    def list_members(self, cluster: ConsensusCluster) -> list[ListedMember]:
        """Return the list of members as it is told."""
        return [member for member in cluster.listed.values() if member.name not in self.unlisted]

    def announce_member(self, cluster: ConsensusCluster, *addresses: str) -> ListedMember:
        """Put a learner on the list: one at a time."""
        if any(set(member.addresses) & set(addresses) for member in cluster.listed.values()):
            raise ListRefusedError("known")
        if any(member.learner for member in cluster.listed.values()):
            raise ListRefusedError("learning")
        self._require_health(cluster)
        number = make_number(str(cluster.number), *addresses, str(len(cluster.listed)), str(cluster.acknowledged))
        cluster.listed[number] = ListedMember(number, addresses, learner=True)
        return cluster.listed[number]

    def promote_member(self, cluster: ConsensusCluster, number: int) -> None:
        """Give a learner its vote that has all that was acknowledged."""
        member = cluster.listed.get(number)
        if member is None:
            raise ListRefusedError("missing")
        if not member.learner:
            raise ListRefusedError("voter")
        running = [server for server in self._servers_of(cluster) if server.member == number]
        if not running or running[0].log < cluster.acknowledged:
            raise ListRefusedError("behind")
        member.learner = False

    def remove_member(self, cluster: ConsensusCluster, number: int) -> None:
        """Take a member off the list."""
        if number not in cluster.listed:
            raise ListRefusedError("missing")
        self._require_health(cluster, without=number)
        del cluster.listed[number]
        if cluster.leader == number:
            cluster.leader = 0

    def transfer_leadership(self, server: ConsensusServer, number: int) -> None:
        """Have another member lead, which only the leader can do."""
        if server.cluster.leader != server.member:
            raise ListRefusedError("not leader")
        server.cluster.leader = number

    def keep_only(self, cluster: ConsensusCluster, number: int) -> None:
        """Go on from one member as a cluster of its own, as engines do when they are forced to."""
        cluster.listed = {number: cluster.listed[number]}
        cluster.listed[number].learner = False

    def find_member(self, addresses: set[str]) -> tuple[ConsensusCluster, ListedMember] | None:
        """Return the member that a cluster with a running server knows by one of these addresses."""
        for cluster in self.clusters.values():
            for member in cluster.listed.values():
                if set(member.addresses) & addresses and any(self._servers_of(cluster)):
                    return cluster, member
        return None

    def _servers_of(self, cluster: ConsensusCluster) -> Iterator[ConsensusServer]:
        return (server for server in self.servers.values() if server.cluster is cluster)

    def _in_touch(self, cluster: ConsensusCluster) -> Iterator[ConsensusServer]:
        """Return the servers of a cluster that reach each other."""
        return (server for server in self._servers_of(cluster) if server.pod not in self.isolated)

    def _is_majority_running(self, cluster: ConsensusCluster, without: int = 0) -> bool:
        running = {server.member for server in self._in_touch(cluster)}
        voters = [number for number in cluster.voters if number != without]
        return sum(number in running for number in voters) > len(voters) // 2

    def _require_health(self, cluster: ConsensusCluster, without: int = 0) -> None:
        """Refuse a change of the list after which no majority of what is left would run."""
        if not self._is_majority_running(cluster, without):
            raise ListRefusedError("unhealthy")


def make_number(*parts: str) -> int:
    """Return a number of 64 bits by what it is of: the same each time."""
    return int.from_bytes(hashlib.sha256("|".join(parts).encode()).digest()[:8], "big") or 1
