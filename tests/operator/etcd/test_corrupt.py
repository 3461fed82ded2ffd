"""A member that etcd calls corrupt, on real etcds: what is decided from what they say then, and that it can be done.

While the alarm is on, etcd takes no writes and every member calls itself unhealthy, so every kubelet calls its pod
unready. Nobody can spoil data so that etcd finds it in a moment; the alarm is raised by hand, as etcd raises it.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.act import act
from fleet.apps.etcd.engine.observe import EtcdObservation, members_of
from fleet.apps.etcd.engine.protocol import Alarm, Refused
from fleet.kit.members import MemberRecord
from fleet.kit.step import Act, NotYetError
from tests.operator.etcd.client import EtcdClient
from tests.operator.etcd.observations import Drawing, app, decided, observe, reobserved, said
from tests.operator.etcd.processes import VERSIONS, EtcdCluster, Process, leader, programs

PODS = ("db-0", "db-1", "db-2")


def _healthy(cluster: EtcdCluster, member: Process) -> bool:
    """What a readiness probe hears."""
    try:
        with urllib.request.urlopen(f"{member.url}/health", context=cluster.tls(), timeout=10) as answer:
            return bool(json.load(answer)["health"] == "true")
    except OSError:  # it says no, or it ends
        return False


async def _raise_alarm(etcd: EtcdClient, member: Process, who: int) -> None:
    question = {"action": "ACTIVATE", "memberID": str(who), "alarm": "CORRUPT"}
    await etcd._call(member.endpoint, "maintenance/alarm", question)


async def _drawn(etcd: EtcdClient, cluster: EtcdCluster) -> Drawing:
    """Pods around the real members."""
    drawing = Drawing(app())
    for pod, member in zip(PODS, cluster.founders, strict=True):
        status = await etcd.status(member.endpoint)
        drawing.pods[pod]["status"]["podIP"] = member.endpoint.address
        drawing.place(pod, MemberRecord("settled", f"{status.member_id:x}")).note(identity=f"{status.cluster_id:x}")
    return drawing


async def _seen(etcd: EtcdClient, cluster: EtcdCluster, drawing: Drawing) -> EtcdObservation:
    """What the members say, and of their pods what their health says."""
    for pod, member in zip(PODS, cluster.founders, strict=True):
        drawing.unready(pod, ready=_healthy(cluster, member))
    seen = await observe(drawing.app, drawing.seen().world, etcd)
    urls = {
        member.name: (names.peer_url(drawing.app, pod),) for pod, member in zip(PODS, cluster.founders, strict=True)
    }
    return reobserved(seen, members=[replace(one, peer_urls=urls[one.name]) for one in members_of(seen) or ()])


async def _carried_out(etcd: EtcdClient, cluster: EtcdCluster, drawing: Drawing, seconds: float = 30.0) -> str:
    """The one request that is decided on, once etcd does what it asks for."""
    end = time.monotonic() + seconds
    while True:
        seen = await _seen(etcd, cluster, drawing)
        (step,) = decided(seen).steps
        assert isinstance(step, Act)
        try:
            await act(etcd, seen, step)
        except NotYetError:
            assert time.monotonic() < end
            await asyncio.sleep(0.2)
        else:
            return said(step)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_corrupt_member_is_taken_out_and_writes_are_let_in_again(version: str, tmp_path: Path) -> None:
    hosts = [names.host(app(), pod) for pod in PODS]
    with EtcdCluster(programs(version), tmp_path, 3, hosts=hosts) as cluster:

        async def work(etcd: EtcdClient) -> None:
            drawing, leading = await _drawn(etcd, cluster), await leader(etcd, cluster.founders)
            bad = next(member for member in cluster.founders if member is not leading)
            number = (await etcd.status(bad.endpoint)).member_id
            await _raise_alarm(etcd, leading, number)
            with pytest.raises(Refused) as refused:
                await etcd.put(leading.endpoint, "key", "value")
            assert refused.value.says("corrupt cluster")
            assert [_healthy(cluster, member) for member in cluster.founders] == [False] * 3

            for wanted in (f"remove {number:x}", f"disarm {number:x}"):
                assert await _carried_out(etcd, cluster, drawing) == wanted
            await etcd.put(leading.endpoint, "key", "value")
            assert (await etcd.status(leading.endpoint)).alarms == ()
            assert _healthy(cluster, leading)
            steps = decided(await _seen(etcd, cluster, drawing)).steps
            assert [said(one) for one in steps] == ["apply ConfigMap db-members"], "it gets an empty volume"

        cluster.talk(work)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_alarm_about_nobody_in_particular_is_heard(version: str, tmp_path: Path) -> None:
    with EtcdCluster(programs(version), tmp_path) as cluster:

        async def work(etcd: EtcdClient) -> None:
            member = cluster.founders[0]
            await _raise_alarm(etcd, member, 0)
            assert (await etcd.status(member.endpoint)).alarms == (Alarm(0, "CORRUPT"),)

        cluster.talk(work)
