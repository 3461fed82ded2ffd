"""One Lease per stack: two syncs never run at once, a dead one does not block, a lost one stops the work."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.errors import ConflictError, ResourceError
from fleet.kube import identity as process
from fleet.kube.client.client import Client
from fleet.kube.lease import PROCESS, Lease
from fleet.testing import Cluster
from fleet.testing.proxy import Freeze, Match, Plan, Proxy, Rule
from tests.kube.runtime.running import eventually
from tests.kube.with_client import connected


def test_a_second_one_is_told_who_holds_it_and_gets_it_afterwards(cluster: Cluster) -> None:
    async def run(client: Client) -> str:
        told: asyncio.Queue[str] = asyncio.Queue()
        async with Lease(client, cluster.namespace):
            with pytest.raises(ConflictError, match=rf"being changed by .*pid {os.getpid()}"):
                async with Lease(client, cluster.namespace):
                    raise AssertionError("both hold it")
            second = asyncio.create_task(_hold(client, cluster.namespace, told))
            holder = await told.get()
            assert not second.done()
        await second
        assert told.empty()
        return holder

    assert f"(pid {os.getpid()}) since 20" in connected(cluster, run)
    assert (
        cluster.get("leases", "-n", "fleet-system", f"--field-selector=metadata.name={cluster.namespace}")["items"]
        == []
    )


async def _hold(client: Client, stack: str, told: asyncio.Queue[str]) -> None:
    async with Lease(client, stack, wait=10, on_wait=told.put_nowait):
        pass


def test_only_one_of_many_is_inside(cluster: Cluster) -> None:
    inside = entered = 0

    async def one(client: Client) -> None:
        nonlocal inside, entered
        async with Lease(client, cluster.namespace, wait=30):
            inside += 1
            entered += 1
            assert inside == 1
            await asyncio.sleep(0.01)
            inside -= 1

    async def run(client: Client) -> None:
        await asyncio.gather(*(one(client) for _ in range(4)))

    connected(cluster, run)
    assert entered == 4


def held_by_another(cluster: Cluster, *, process_identity: str, renewed: str) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": cluster.namespace,
            "namespace": "fleet-system",
            "annotations": {PROCESS: process_identity},
        },
        "spec": {
            "holderIdentity": "ann@far 1",
            "leaseDurationSeconds": 30,
            "acquireTime": renewed,
            "renewTime": renewed,
        },
    }
    cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "-n", "fleet-system", "-f", "-", input=json.dumps(lease)
    )


@pytest.fixture
def system(cluster: Cluster) -> Cluster:
    """The cluster with fleet's own namespace, which the first Lease makes."""

    async def make(client: Client) -> None:
        async with Lease(client, cluster.namespace):
            pass

    connected(cluster, make)
    return cluster


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())


def test_one_of_a_living_holder_elsewhere_is_respected_until_it_expires(system: Cluster) -> None:
    async def take(client: Client) -> None:
        async with Lease(client, system.namespace):
            pass

    held_by_another(system, process_identity="elsewhere/1/2.00", renewed=now())
    with pytest.raises(ConflictError, match="ann@far"):
        connected(system, take)
    held_by_another(system, process_identity="elsewhere/1/2.00", renewed="2026-01-01T00:00:00.000000Z")
    connected(system, take)


def test_one_of_a_process_that_was_killed_on_this_machine_is_taken_at_once(system: Cluster) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "from fleet.kube import identity; print(identity.identity(), flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout
        identity = other.stdout.readline().strip()
        assert not process.is_dead(identity)
        held_by_another(system, process_identity=identity, renewed=now())

        async def take(client: Client) -> None:
            async with Lease(client, system.namespace):
                pass

        with pytest.raises(ConflictError):
            connected(system, take)
        other.kill()
        other.wait()
    assert process.is_dead(identity)
    connected(system, take)


def test_whoever_sets_the_clock_makes_nobody_dead() -> None:
    """When a process began is counted from the boot, and not by the time of day."""
    machine, pid, started = process.identity().split("/")
    ticks = int(started.removeprefix("ticks:"))
    assert ticks == int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    assert process.is_dead(f"{machine}/{pid}/ticks:{ticks + 1}")
    assert not process.is_dead(f"{machine}/{pid}/1763454000.25"), "by the time of day, as it was once: not known"


def test_this_process_is_alive_and_others_elsewhere_cannot_be_judged() -> None:
    assert not process.is_dead(process.identity())
    assert not process.is_dead("elsewhere/1/2.00")
    assert not process.is_dead("")


def test_one_that_is_taken_away_stops_the_work(cluster: Cluster) -> None:
    async def run(client: Client) -> None:
        async with Lease(client, cluster.namespace, seconds=1.5):
            await asyncio.to_thread(held_by_another, cluster, process_identity="elsewhere/1/2.00", renewed=now())
            await asyncio.sleep(90)

    begun = time.monotonic()
    with pytest.raises(ResourceError, match="was lost, so the work was stopped"):
        connected(cluster, run)
    assert time.monotonic() - begun < 60


def test_one_is_renewed_for_as_long_as_the_work_takes(cluster: Cluster) -> None:
    async def run(client: Client) -> None:
        async with Lease(client, cluster.namespace, seconds=5):
            await asyncio.sleep(12)
            with pytest.raises(ConflictError):
                async with Lease(client, cluster.namespace):
                    pass

    connected(cluster, run)


def test_one_whose_renewal_was_answered_too_late_is_still_ours(cluster: Cluster, api_proxy: Proxy) -> None:
    """The server stored it, and has another version of the Lease by then than we saw."""
    renewal = Match(verb="update", resource="leases", name=cluster.namespace)
    api_proxy.plan = Plan([Rule(renewal, Freeze(), nth=1)])

    async def run() -> int:
        async with Client.of(api_proxy.kubeconfig, cluster.context) as client:
            async with Lease(client, cluster.namespace, seconds=9):
                # Answered too late, refused, renewed, renewed once more.
                await eventually("renewals", lambda: api_proxy.count(renewal) >= 4, 60)
            return api_proxy.count(Match(verb="get", resource="leases", name=cluster.namespace))

    assert asyncio.run(run()) == 1


def test_being_cancelled_gives_it_back(cluster: Cluster) -> None:
    async def run(client: Client) -> None:
        entered = asyncio.Event()

        async def work() -> None:
            async with Lease(client, cluster.namespace):
                entered.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with Lease(client, cluster.namespace):
            pass

    connected(cluster, run)
