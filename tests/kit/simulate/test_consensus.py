"""Servers that agree by majority: what they lose, whom they let in, and when they serve nobody."""

from __future__ import annotations

import pytest

from fleet.kit.protocol.endpoint import Endpoint, Unreachable
from fleet.kit.simulate.cluster import Disk
from fleet.kit.simulate.consensus import (
    ConsensusCluster,
    ConsensusServers,
    ListedMember,
    ListRefusedError,
    make_number,
)


class Registry:
    """A cluster of three with its volumes, by pod."""

    def __init__(self) -> None:
        self.servers = ConsensusServers()
        self.disks = {f"db-{number}": Disk(f"uid-{number}") for number in range(5)}
        listed = {number + 1: ListedMember(number + 1, (f"db-{number}:7000",)) for number in range(3)}
        self.cluster = self.servers.clusters[9] = ConsensusCluster(9, listed)
        for number in range(3):
            self.servers.begin(self.disks[f"db-{number}"], self.cluster, number + 1)
            self.start(f"db-{number}")
        self.servers.tick()

    def start(self, pod: str) -> bool:
        return self.servers.run(pod, self.disks[pod], "1.0")

    def join(self, pod: str) -> ListedMember:
        member = self.servers.announce_member(self.cluster, f"{pod}:7000")
        self.servers.begin(self.disks[pod], self.cluster, member.number)
        assert self.start(pod)
        return member


def endpoint(pod: str) -> Endpoint:
    return Endpoint("127.0.0.1", 7000, f"{pod}.db-peers.orders.svc")


def test_a_majority_elects_and_acknowledges() -> None:
    registry = Registry()
    assert registry.servers.is_served() and registry.servers.elections == 1
    assert [registry.servers.servers[f"db-{number}"].log for number in range(3)] == [1, 1, 1]
    assert registry.cluster.acknowledged == 1
    assert registry.servers.membership() == {"db-0": "voter", "db-1": "voter", "db-2": "voter"}


def test_without_a_majority_nobody_is_served_and_nothing_is_acknowledged() -> None:
    registry = Registry()
    registry.servers.stop("db-0")
    registry.servers.stop("db-1")
    registry.servers.tick()
    assert not registry.servers.is_served() and not registry.servers.is_ready("db-2")
    assert registry.cluster.acknowledged == 1
    with pytest.raises(Unreachable, match="no answer"):
        registry.servers.server_of_majority(endpoint("db-2"))
    assert registry.servers.server_at(endpoint("db-2")).member == 3  # of itself alone it can speak


def test_the_next_leader_has_what_was_acknowledged() -> None:
    registry = Registry()
    registry.servers.stop("db-2")
    registry.servers.tick()
    registry.servers.stop(next(pod for pod, server in registry.servers.servers.items() if server.member == 1))
    registry.start("db-2")
    registry.servers.tick()
    assert registry.cluster.leader == 2 and registry.servers.elections == 2
    assert registry.servers.lost_writes() == 0


def test_acknowledged_numbers_that_no_volume_has_are_lost() -> None:
    registry = Registry()
    registry.servers.tick()
    for pod in list(registry.servers.servers):
        registry.servers.servers[pod].volume.content["log"] = 0
    assert registry.servers.lost_writes() == 2


def test_a_learner_gets_its_vote_once_it_has_caught_up() -> None:
    registry = Registry()
    member = registry.join("db-3")
    assert not registry.servers.is_ready("db-3")
    with pytest.raises(ListRefusedError, match="behind"):
        registry.servers.promote_member(registry.cluster, member.number)
    with pytest.raises(ListRefusedError, match="learner"):
        registry.servers.server_of_majority(endpoint("db-3"))
    registry.servers.tick()
    registry.servers.promote_member(registry.cluster, member.number)
    assert registry.servers.is_ready("db-3")
    with pytest.raises(ListRefusedError, match="voter"):
        registry.servers.promote_member(registry.cluster, member.number)


def test_one_learner_at_a_time_and_no_address_twice() -> None:
    registry = Registry()
    with pytest.raises(ListRefusedError, match="known"):
        registry.servers.announce_member(registry.cluster, "db-0:7000")
    registry.join("db-3")
    with pytest.raises(ListRefusedError, match="learning"):
        registry.servers.announce_member(registry.cluster, "db-4:7000")


def test_the_list_is_not_changed_where_no_majority_would_be_left() -> None:
    registry = Registry()
    registry.servers.stop("db-2")
    registry.servers.tick()
    with pytest.raises(ListRefusedError, match="unhealthy"):
        registry.servers.remove_member(registry.cluster, 1)
    registry.servers.remove_member(registry.cluster, 3)
    assert not registry.start("db-2")  # it is on the list no more
    with pytest.raises(ListRefusedError, match="missing"):
        registry.servers.remove_member(registry.cluster, 3)


def test_only_the_leader_hands_over() -> None:
    registry = Registry()
    leader = next(server for server in registry.servers.servers.values() if server.member == registry.cluster.leader)
    other = next(server for server in registry.servers.servers.values() if server is not leader)
    with pytest.raises(ListRefusedError, match="not leader"):
        registry.servers.transfer_leadership(other, other.member)
    registry.servers.transfer_leadership(leader, other.member)
    registry.servers.tick()
    assert registry.cluster.leader == other.member and registry.servers.elections == 1


def test_a_silent_pod_serves_clients_and_is_not_reached() -> None:
    registry = Registry()
    registry.servers.silent.add("db-0")
    with pytest.raises(Unreachable, match="no answer"):
        registry.servers.server_at(endpoint("db-0"))
    with pytest.raises(Unreachable, match="refused"):
        registry.servers.server_at(endpoint("db-4"))
    assert registry.servers.is_served()


def test_one_member_goes_on_alone_when_it_is_forced_to() -> None:
    registry = Registry()
    registry.servers.stop("db-0")
    registry.servers.stop("db-1")
    registry.servers.keep_only(registry.cluster, 3)
    registry.servers.tick()
    assert registry.servers.is_served() and registry.servers.membership() == {"db-2": "voter"}


def test_a_member_is_found_by_its_address_while_a_server_of_its_cluster_runs() -> None:
    registry = Registry()
    known = registry.servers.find_member({"db-1:7000", "elsewhere:7000"})
    assert known is not None and known[1].number == 2
    for pod in ("db-0", "db-1", "db-2"):
        registry.servers.stop(pod)
    assert registry.servers.find_member({"db-1:7000"}) is None


def test_numbers_are_the_same_each_time_and_never_zero() -> None:
    assert make_number("token", "db-0") == make_number("token", "db-0") != make_number("token", "db-1")
