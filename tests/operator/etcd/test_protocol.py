"""The client of etcd's protocol against real etcd processes of every version at hand, with TLS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import fleet.kube.runtime as kube
from fleet.apps.etcd.engine.protocol import Alarm, Endpoint, Etcd, Member, Refused, Unreachable
from fleet.kit.credentials.certificates import Authority, client_context
from tests.bench.operators import engine, ours
from tests.operator.etcd.client import EtcdClient
from tests.operator.etcd.processes import VERSIONS, EtcdCluster, eventually, leader, programs


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """Three members that tests may disturb, if they leave them as they were."""
    version = request.param
    with EtcdCluster(programs(version), tmp_path_factory.mktemp(f"etcd-{version}"), 3) as cluster:
        yield cluster


def test_a_member_says_what_it_is_and_who_leads(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        leading = await leader(etcd, cluster.founders)
        found = [await etcd.status(member.endpoint) for member in cluster.founders]
        assert {one.version.rpartition(".")[0] for one in found} == {cluster.programs.version}
        assert len({one.cluster_id for one in found}) == 1 != len({one.member_id for one in found})
        assert [one.leads for one in found] == [member is leading for member in cluster.founders]
        for one in found:
            assert one.raft_index >= one.raft_applied_index > 0 and one.raft_term > 0
            assert one.db_size >= one.db_size_in_use > 0
            assert not one.is_learner and one.errors == () and one.alarms == ()

    cluster.talk(work)


def test_the_list_has_every_member_by_name_and_url(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        members = await etcd.members(cluster.founders[0].endpoint)
        ids = {member.name: (await etcd.status(member.endpoint)).member_id for member in cluster.founders}
        wanted = {
            Member(ids[member.name], member.name, (member.peer_url,), (member.url,), False)
            for member in cluster.founders
        }
        assert set(members) == wanted
        assert all(member.started for member in members)

    cluster.talk(work)


def test_what_was_put_is_there_and_counted(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        first, second, _ = (member.endpoint for member in cluster.founders)
        before = await etcd.revision(first)
        for number in range(5):
            await etcd.put(first, f"counted/{number}", f"value {number}")
        assert await etcd.get(second, "counted/3") == b"value 3"
        assert await etcd.get(second, "counted/9") is None
        assert await etcd.count(second, "counted/") == 5
        assert await etcd.revision(second) == before + 5

    cluster.talk(work)


def test_a_member_gets_another_peer_url(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        asked, other = cluster.founders[0], cluster.founders[1]
        number = (await etcd.status(other.endpoint)).member_id
        for urls in ((other.peer_url, "https://127.0.0.1:1"), (other.peer_url,)):
            await etcd.update_peer_urls(asked.endpoint, number, urls)
            listed = {member.id: member for member in await etcd.members(asked.endpoint)}[number]
            assert set(listed.peer_urls) == set(urls) and listed.name == other.name

    cluster.talk(work)


def test_leadership_moves_only_from_the_leader_to_a_voter(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        leading = await leader(etcd, cluster.founders)
        other = next(member for member in cluster.founders if member is not leading)
        target = (await etcd.status(other.endpoint)).member_id
        with pytest.raises(Refused) as refused:
            await etcd.move_leader(other.endpoint, target)
        assert refused.value.not_leader
        with pytest.raises(Refused, match="bad leader transferee"):
            await etcd.move_leader(leading.endpoint, 1)
        await etcd.move_leader(leading.endpoint, target)
        assert await leader(etcd, cluster.founders) is other

    cluster.talk(work)


def test_a_member_joins_as_a_learner_catches_up_votes_and_leaves(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        asked, new = cluster.founders[0].endpoint, cluster.members[3]
        with pytest.raises(Refused) as twice:
            await eventually(lambda: etcd.add_learner(asked, cluster.founders[1].peer_url))
        assert twice.value.already_there
        added = await eventually(lambda: etcd.add_learner(asked, new.peer_url))
        assert added.is_learner and not added.started
        with pytest.raises(Refused) as early:
            await etcd.promote(asked, added.id)
        assert early.value.learner_not_ready

        new.start(joins=cluster.founders)
        assert await _reached(etcd, new.endpoint) == added.id
        with pytest.raises(Refused) as second:
            await eventually(lambda: etcd.add_learner(asked, "https://127.0.0.1:1"))
        assert second.value.too_many_learners
        await eventually(lambda: etcd.promote(asked, added.id))
        listed = {member.id: member for member in await etcd.members(asked)}[added.id]
        assert listed.name == new.name and not listed.is_learner
        with pytest.raises(Refused) as again:
            await etcd.promote(asked, added.id)
        assert again.value.not_learner

        await eventually(lambda: etcd.remove(asked, added.id))
        assert {member.name for member in await etcd.members(asked)} == {"m0", "m1", "m2"}
        with pytest.raises(Refused) as gone:
            await etcd.remove(asked, added.id)
        assert gone.value.not_found
        new.stop()

    cluster.talk(work)


async def _reached(etcd: EtcdClient, endpoint: Endpoint) -> int:
    end = time.monotonic() + 20
    while True:
        try:
            return (await etcd.status(endpoint)).member_id
        except Unreachable:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(0.1)


def test_a_learner_says_that_it_is_one_and_answers_nothing_that_needs_a_vote(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        asked, new = cluster.founders[0].endpoint, cluster.members[4]
        added = await eventually(lambda: etcd.add_learner(asked, new.peer_url))
        new.start(joins=cluster.founders)
        try:
            assert await _reached(etcd, new.endpoint) == added.id
            assert (await etcd.status(new.endpoint)).is_learner
            with pytest.raises(Refused) as refused:
                await etcd.members(new.endpoint)
            assert refused.value.says("rpc not supported for learner")
        finally:
            await eventually(lambda: etcd.remove(asked, added.id))
            new.stop()

    cluster.talk(work)


def test_a_frozen_member_is_unreachable_in_time_and_the_others_serve(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        leading = await leader(etcd, cluster.founders)
        frozen = next(member for member in cluster.founders if member is not leading)
        async with EtcdClient(cluster.tls(), 0.7) as hasty:
            await _reached(hasty, frozen.endpoint)  # a connection is open
            frozen.freeze()
            try:
                begin = time.monotonic()
                silent, status = await asyncio.gather(
                    hasty.status(frozen.endpoint), etcd.status(leading.endpoint), return_exceptions=True
                )
                took = time.monotonic() - begin
                assert isinstance(silent, Unreachable) and "no answer in 0.7 s" in str(silent)
                assert not isinstance(status, BaseException)
                assert took < 5
            finally:
                frozen.thaw()

    cluster.talk(work)
    cluster.talk(lambda etcd: leader(etcd, cluster.founders))


def test_a_member_without_a_quorum_knows_its_state_but_no_list_to_rely_on(cluster: EtcdCluster) -> None:
    alone, *others = cluster.founders

    async def work(etcd: EtcdClient) -> None:
        for other in others:
            other.freeze()
        try:
            status = await etcd.status(alone.endpoint)
            for _ in range(100):
                if status.leader:
                    await asyncio.sleep(0.1)
                    status = await etcd.status(alone.endpoint)
            assert status.leader == 0 and not status.leads
            assert "etcdserver: no leader" in status.errors
            async with EtcdClient(cluster.tls(), 2.0) as hasty:
                with pytest.raises((Unreachable, Refused)):
                    await hasty.members(alone.endpoint)
            assert len(await etcd.members(alone.endpoint, linearizable=False)) == 3
        finally:
            for other in others:
                other.thaw()

    cluster.talk(work)
    cluster.talk(lambda etcd: leader(etcd, cluster.founders))


def test_a_restarted_member_is_reached_on_a_new_connection(cluster: EtcdCluster) -> None:
    async def work(etcd: EtcdClient) -> None:
        leading = await leader(etcd, cluster.founders)
        member = next(one for one in reversed(cluster.founders) if one is not leading)
        before = await etcd.status(member.endpoint)
        member.stop()
        with pytest.raises(Unreachable):
            await etcd.status(member.endpoint)
        assert (await _refusal(etcd, leading.endpoint)).unhealthy
        member.start()
        async with EtcdClient(cluster.tls()) as other:
            await _reached(other, member.endpoint)
        assert (await etcd.status(member.endpoint)).member_id == before.member_id
        await leader(etcd, cluster.founders)

    cluster.talk(work)


async def _refusal(etcd: EtcdClient, asked: Endpoint) -> Refused:
    """Of a new member. The others see after a moment that one is gone; whom they let in before leaves again."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            added = await etcd.add_learner(asked, "https://127.0.0.1:1")
        except Refused as refused:
            return refused
        await eventually(partial(etcd.remove, asked, added.id))
        await asyncio.sleep(0.2)
    raise AssertionError("a new member is let in while one is gone")


def test_a_server_of_another_authority_or_name_is_not_believed(cluster: EtcdCluster) -> None:
    member = cluster.founders[0].endpoint
    stranger = Authority.new("etcd")

    async def work() -> None:
        async with EtcdClient(client_context(cluster.authority, trusted=stranger.pem)) as etcd:
            with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
                await etcd.status(member)
        async with EtcdClient(cluster.tls()) as etcd:
            await etcd.status(member)
            with pytest.raises(Unreachable, match=r"Hostname mismatch|IP address mismatch"):
                await etcd.status(Endpoint(member.address, member.port, "elsewhere.test"))
        async with EtcdClient(None) as etcd:
            with pytest.raises(Unreachable):
                await etcd.status(member)

    asyncio.run(work())


def test_a_client_of_another_authority_is_turned_away(cluster: EtcdCluster) -> None:
    async def work() -> None:
        stranger = client_context(Authority.new("etcd"), trusted=cluster.authority.pem)
        async with EtcdClient(stranger) as etcd:
            with pytest.raises(Unreachable):
                await etcd.status(cluster.founders[0].endpoint)

    asyncio.run(work())


def test_a_port_where_nobody_listens_is_unreachable(cluster: EtcdCluster) -> None:
    nobody = Endpoint(cluster.founders[0].endpoint.address, 1, "m0.test")
    with pytest.raises(Unreachable, match=r"m0\.test .* cannot be reached"):
        cluster.talk(lambda etcd: etcd.status(nobody))


def test_a_downgrade_is_judged_by_those_that_can(cluster: EtcdCluster) -> None:
    asked = cluster.founders[0].endpoint
    version = cluster.programs.version

    async def work(etcd: EtcdClient) -> None:
        if version == "3.6":
            await etcd.downgrade(asked, "validate", "3.5")
            await etcd.downgrade(asked, "enable", "3.5")
            assert (await etcd.status(asked)).downgrading_to.startswith("3.5")
            await etcd.downgrade(asked, "cancel", "")
            assert (await etcd.status(asked)).downgrading_to == ""
            return
        with pytest.raises(Refused) as refused:
            await etcd.downgrade(asked, "validate", "3.3")
        assert refused.value.unsupported == (version == "3.4")
        with pytest.raises(Refused) as none:
            await etcd.downgrade(asked, "cancel", "")
        assert none.value.no_downgrade == (version == "3.5")

    cluster.talk(work)


def test_a_downgrade_that_is_taken_back_half_way_lets_members_go_up_again(tmp_path: Path) -> None:
    with EtcdCluster(programs("3.6"), tmp_path, 3) as cluster:
        asked, last = cluster.founders[0].endpoint, cluster.founders[2]

        async def in_format(etcd: EtcdClient, series: str) -> None:
            end = time.monotonic() + 60
            while not (await etcd.status(asked)).storage_version.startswith(series):
                assert time.monotonic() < end
                await asyncio.sleep(0.2)

        async def work(etcd: EtcdClient) -> None:
            await etcd.downgrade(asked, "enable", "3.5")
            await in_format(etcd, "3.5")
            last.stop()
            last.start(programs=programs("3.5"))
            await leader(etcd, cluster.founders, 60)
            assert (await etcd.status(asked)).downgrading_to.startswith("3.5")
            await etcd.downgrade(asked, "cancel", "")
            last.stop()
            last.start()
            await leader(etcd, cluster.founders, 60)
            await in_format(etcd, "3.6")

        cluster.talk(work)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_full_member_takes_writes_again_after_compaction_and_defragmentation(version: str, tmp_path: Path) -> None:
    quota = ["--quota-backend-bytes=1000000"]
    with EtcdCluster(programs(version), tmp_path, options=quota) as cluster:
        member = cluster.founders[0].endpoint

        async def work(etcd: EtcdClient) -> None:
            with pytest.raises(Refused) as full:
                for _ in range(100):
                    await etcd.put(member, "again and again", b"x" * 50_000)
            assert full.value.says("database space exceeded")
            status = await etcd.status(member)
            alarm = Alarm(status.member_id, "NOSPACE")
            assert status.alarms == (alarm,) == await etcd.alarms(member)

            revision = await etcd.revision(member)
            await etcd.compact(member, revision)
            with pytest.raises(Refused) as again:
                await etcd.compact(member, revision)
            assert again.value.compacted
            await etcd.defragment(member)
            assert (await etcd.status(member)).db_size < status.db_size / 2
            with pytest.raises(Refused) as still:
                await etcd.put(member, "key", "value")
            assert still.value.says("database space exceeded")

            await etcd.disarm(member, alarm)
            assert await etcd.alarms(member) == () == (await etcd.status(member)).alarms
            await etcd.put(member, "key", "value")

        cluster.talk(work)


def test_the_benchmark_of_operators_asks_members_by_this_client() -> None:
    """So that its figures are of what ships."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            requests.append(head + await reader.readexactly(len(engine.QUESTION)))
            writer.write(engine.HEAD % (len(engine.STATUS), engine.STATUS))

    async def work() -> int:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Etcd(None) as etcd:
            status = await etcd.status(Endpoint("127.0.0.1", port, "a-0"))
            assert status.leads and not status.errors
            probes = ours.Engine(f"http://127.0.0.1:{port}")
            healthy = await probes.count_healthy(kube.Name("things", "a"), 3)
            assert isinstance(probes._etcd, Etcd)
            await probes.close()
        return healthy

    assert asyncio.run(work()) == 3
    assert len(requests) == 4
    assert set(requests) == {requests[0]}
