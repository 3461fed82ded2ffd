"""Waiting for health and watching: on a real server with simulated nodes, where pods do become ready."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import AccessError
from fleet.kube.client.client import Client
from fleet.kube.health import Health, State
from fleet.kube.objects import ObjectScope
from fleet.kube.resources import CONFIG_MAPS
from fleet.kube.watch import ChangedObject, ListedObjects, wait_for_health, watch_changes
from fleet.objects.desired import Key
from fleet.objects.resource import Resource
from fleet.testing import Cluster
from fleet.testing.proxy import Cut, Expire, Match, Plan, Proxy, Rule
from tests.kube.with_client import agent, config_map, connected

CONTAINER = {"name": "main", "image": "localhost/none:1"}


def workload(cluster: Cluster, kind: str, name: str, *, replicas: int = 2, **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": cluster.namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER], **pod}},
            **({"serviceName": name} if kind == "StatefulSet" else {}),
        },
    }


def key(cluster: Cluster, kind: str, name: str) -> Key:
    return Key("" if kind == "ConfigMap" else "apps", kind, cluster.namespace, name)


def test_workloads_become_healthy_and_each_change_is_told(cluster: Cluster) -> None:
    names = [("Deployment", "a"), ("Deployment", "b"), ("StatefulSet", "c")]
    cluster.apply(*(workload(cluster, kind, name) for kind, name in names), config_map(cluster, "d"))
    keys = [*(key(cluster, kind, name) for kind, name in names), key(cluster, "ConfigMap", "d")]
    told: list[tuple[str, State]] = []

    async def wait(client: Client) -> dict[Key, Health]:
        return await wait_for_health(
            client, keys, seconds=60, on_change=lambda one, health: told.append((one.name, health.state))
        )

    health = connected(cluster, wait)
    assert {one.name: found.state for one, found in health.items()} == dict.fromkeys("abcd", State.HEALTHY)
    assert {name for name, state in told if state is State.HEALTHY} == set("abcd")


def test_what_does_not_become_healthy_is_told_with_the_reason_when_the_time_is_up(cluster: Cluster) -> None:
    cluster.apply(workload(cluster, "Deployment", "stuck", nodeSelector={"no": "where"}), config_map(cluster, "fine"))
    keys = [key(cluster, "Deployment", "stuck"), key(cluster, "ConfigMap", "fine"), key(cluster, "ConfigMap", "none")]
    begun = time.monotonic()
    health = connected(cluster, lambda client: wait_for_health(client, keys, seconds=3))
    assert 2.5 < time.monotonic() - begun < 60
    assert [found.state for found in health.values()] == [State.PROGRESSING, State.HEALTHY, State.MISSING]
    assert "0 of 2 replicas are available" in health[keys[0]].message


def test_what_is_healthy_already_costs_one_look(cluster: Cluster) -> None:
    cluster.apply(config_map(cluster, "a"))
    mark = cluster.audit.mark()
    connected(cluster, lambda client: wait_for_health(client, [key(cluster, "ConfigMap", "a")], seconds=30))
    seen = [one for one in cluster.audit.requests(since=mark, agent=agent(cluster)) if one.resource == "configmaps"]
    assert [one.verb for one in seen] == ["get"]


async def collect(
    client: Client, scope: ObjectScope, enough: asyncio.Event, into: list[ListedObjects | ChangedObject]
) -> None:
    async for event in watch_changes(client, scope, silence=30):
        into.append(event)
        enough.set()


@pytest.mark.parametrize("cut", [Cut(after_events=2), Cut(after_events=1, after_bytes=50)], ids=["between", "within"])
def test_a_watch_goes_on_over_broken_connections_without_losing_or_repeating_a_change(
    cluster: Cluster, tmp_path: Path, cut: Cut
) -> None:
    async def run() -> list[ListedObjects | ChangedObject]:
        seen: list[ListedObjects | ChangedObject] = []
        enough = asyncio.Event()
        scope = ObjectScope(CONFIG_MAPS, cluster.namespace, labels="watched=yes")
        async with Client.of(proxy.kubeconfig, proxy.context) as client:
            task = asyncio.create_task(collect(client, scope, enough, seen))
            await asyncio.wait_for(enough.wait(), 10)
            for n in range(6):
                manifest = config_map(cluster, f"m{n}")
                manifest["metadata"]["labels"] = {"watched": "yes"}
                await asyncio.to_thread(cluster.apply, manifest)
            async with asyncio.timeout(20):
                while sum(isinstance(one, ChangedObject) for one in seen) < 6:
                    enough.clear()
                    await enough.wait()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return seen

    watches = Match(verb="watch", resource="configmaps")
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path, Plan([Rule(watches, cut)])) as proxy:
        seen = asyncio.run(run())
        assert proxy.count(watches) > 2
    assert isinstance(seen[0], ListedObjects) and sum(isinstance(one, ListedObjects) for one in seen) == 1
    names = [one.object["metadata"]["name"] for one in seen if isinstance(one, ChangedObject)]
    assert names == [f"m{n}" for n in range(6)]


def test_a_watch_from_a_forgotten_version_lists_again(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(config_map(cluster, "a"))
    watches = Match(verb="watch", resource="configmaps")

    async def run() -> list[int]:
        sizes = []
        async with asyncio.timeout(30), Client.of(proxy.kubeconfig, proxy.context) as client:
            async for event in watch_changes(client, ObjectScope(CONFIG_MAPS, cluster.namespace), silence=30):
                if isinstance(event, ListedObjects):
                    sizes.append(len(event.objects))
                if len(sizes) == 2:
                    break
        return sizes

    with Proxy(cluster.kubeconfig, cluster.context, tmp_path, Plan([Rule(watches, Expire(), nth=1)])) as proxy:
        first, second = asyncio.run(run())
        assert proxy.count(watches) == 1
    assert first == second > 0


def test_a_watch_without_the_right_raises_and_does_not_try_for_ever(cluster: Cluster, tmp_path: Path) -> None:
    from tests.kube.client.test_client import as_user

    token = cluster.kubectl("create", "token", "default").strip()
    config = as_user(cluster, tmp_path / "config", {"token": token})

    async def run() -> None:
        async with Client.of(config, cluster.context) as client:
            async for _ in watch_changes(client, ObjectScope(Resource("", "v1", "Node", "nodes", False))):
                pass

    with pytest.raises(AccessError, match="no right to list nodes"):
        asyncio.run(run())


def test_an_object_longer_than_any_buffer_is_told_too(cluster: Cluster) -> None:
    manifest = config_map(cluster, "long", text="x" * 900_000)

    async def run(client: Client) -> int:
        async for event in watch_changes(client, ObjectScope(CONFIG_MAPS, cluster.namespace), silence=30):
            if isinstance(event, ListedObjects):
                await asyncio.to_thread(cluster.apply, manifest)
            elif event.object["metadata"]["name"] == "long":
                return len(event.object["data"]["text"])
        raise AssertionError("unreachable")

    assert connected(cluster, lambda client: asyncio.wait_for(run(client), 30)) == 900_000


def test_a_claim_is_not_waited_for_until_a_pod_uses_it_and_one_of_no_class_is(cluster: Cluster) -> None:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    specs = {"unused": {}, "of-no-class": {"storageClassName": "no-such-class"}}
    keys = [Key("", "PersistentVolumeClaim", cluster.namespace, name) for name in specs]
    for name, spec in specs.items():
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        cluster.apply({**claim, "spec": {**asked, **spec}})

    begun = time.monotonic()
    health = connected(cluster, lambda client: wait_for_health(client, keys[:1], seconds=60))
    assert health == {keys[0]: Health(State.HEALTHY, "waits for its first consumer")}
    assert time.monotonic() - begun < 30
    health = connected(cluster, lambda client: wait_for_health(client, keys, seconds=2))
    assert health[keys[1]] == Health(State.DEGRADED, "StorageClass no-such-class does not exist")
