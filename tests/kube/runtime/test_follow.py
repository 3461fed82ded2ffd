"""Caches stay true to a real server through what networks and servers do to a watch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fleet.kube.client.client import Client
from fleet.kube.client.limits import Patience
from fleet.kube.runtime.cache import Cache
from fleet.kube.runtime.informer import Informer
from fleet.objects.resource import Resource
from fleet.testing import Cluster
from fleet.testing.proxy import Cut, Match, Plan, Proxy, Rule
from tests.kube.runtime.greeter import CONFIG_MAPS, GREETINGS, greeting
from tests.kube.runtime.running import eventually
from tests.kube.with_client import agent, config_map

WATCHES = Match(verb="watch", resource="configmaps")


@contextlib.asynccontextmanager
async def following(
    cluster: Cluster,
    *,
    kubeconfig: Path | None = None,
    version: str = "",
    resource: Resource = CONFIG_MAPS,
    **options: Any,
) -> AsyncIterator[Informer]:
    async with Client.of(kubeconfig or cluster.kubeconfig, cluster.context, agent=agent(cluster)) as client:
        cache = Cache(resource, namespace=cluster.namespace, labels={"watched": "yes"}, manager="kubectl")
        follower = Informer(client, cache, patience=Patience(first=0.1, most=0.5), **options)
        follower.loop.version = version
        task = asyncio.create_task(follower.run())
        try:
            yield follower
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def watched(cluster: Cluster, name: str, **data: str) -> dict[str, Any]:
    manifest = config_map(cluster, name, **data)
    manifest["metadata"]["labels"] = {"watched": "yes"}
    return manifest


def names(follower: Informer) -> list[str]:
    return sorted(name.name for name in follower.cache.names())


@pytest.mark.parametrize("streamed", [True, False], ids=["a streamed list", "pages"])
def test_what_is_there_and_every_change_of_it_comes_into_the_cache(cluster: Cluster, streamed: bool) -> None:
    cluster.apply(watched(cluster, "a"), watched(cluster, "b"), config_map(cluster, "other"))
    mark = cluster.audit.mark()

    async def run() -> None:
        async with following(cluster, streams_lists=streamed) as follower:
            await eventually("the list", lambda: follower.cache.synced)
            assert names(follower) == ["a", "b"]
            await asyncio.to_thread(cluster.apply, watched(cluster, "c", big="x" * 900_000))
            await asyncio.to_thread(cluster.kubectl, "delete", "configmap", "a")
            await eventually("both changes", lambda: names(follower) == ["b", "c"])
            found = follower.cache.get(cluster.namespace, "c")
            assert found is not None and len(found["data"]["big"]) == 900_000
            assert [entry["manager"] for entry in found["metadata"]["managedFields"]] == ["kubectl"]
            assert follower.lists == 1 and follower.problem is None

    asyncio.run(run())
    asked = [one.verb for one in cluster.audit.requests(since=mark, agent=agent(cluster))]
    assert asked.count("list") == (0 if streamed else 1)


def test_a_point_that_the_server_has_forgotten_leads_to_a_new_list(greetings: Cluster) -> None:
    # What the server remembers of a kind begins when the kind is defined, and that was after its very first version.
    greetings.apply(greeting("a", greetings.namespace, watched="yes"))

    async def run() -> None:
        async with following(greetings, version="1", resource=GREETINGS) as follower:
            await eventually("a list", lambda: follower.cache.synced)
            assert names(follower) == ["a"] and follower.lists == 1

    asyncio.run(run())


@pytest.mark.parametrize("cut", [Cut(after_events=1), Cut(after_events=1, after_bytes=50)], ids=["between", "within"])
def test_watches_cut_between_events_or_within_one_lose_nothing_and_need_no_new_list(
    cluster: Cluster, tmp_path: Path, cut: Cut
) -> None:
    async def run() -> None:
        async with following(cluster, kubeconfig=proxy.kubeconfig) as follower:
            await eventually("the list", lambda: follower.cache.synced)
            for n in range(3):
                await asyncio.to_thread(cluster.apply, watched(cluster, f"m{n}"))
            await eventually("all of them", lambda: names(follower) == ["m0", "m1", "m2"])
            assert follower.lists == 1

    plan = Plan([Rule(WATCHES, cut)])
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path, plan) as proxy:
        asyncio.run(run())
        watches = [one.call.path for one in proxy.requests if WATCHES(one.call)]
    assert len(watches) > 3
    assert [path for path in watches if "sendInitialEvents" in path] == watches[:1]


def test_a_server_that_falls_silent_is_left_and_found_again(cluster: Cluster) -> None:
    """Frozen, it keeps its connections open and says nothing: only the watchdog notices."""
    server = cluster.process("kube-apiserver")
    made = 0

    async def one_more(follower: Informer) -> None:
        nonlocal made
        made += 1
        await asyncio.to_thread(cluster.apply, watched(cluster, f"n{made}"))
        await eventually("a change", lambda: f"n{made}" in names(follower))

    async def run() -> None:
        async with following(cluster, silence=1.5) as follower:
            await eventually("the list", lambda: follower.cache.synced)
            await one_more(follower)
            os.kill(server, signal.SIGSTOP)
            try:
                await eventually("noticing", lambda: follower.problem is not None, 15)
                assert "Timeout" in str(follower.problem)
                assert names(follower) == ["n1"], "silence takes nothing away"
            finally:
                os.kill(server, signal.SIGCONT)
            await one_more(follower)
            assert follower.problem is None and follower.lists == 1

    asyncio.run(run())


def test_a_right_that_is_missing_is_told_and_used_once_it_is_there(cluster: Cluster, tmp_path: Path) -> None:
    from tests.kube.client.test_client import as_user

    cluster.apply(watched(cluster, "a"))
    token = cluster.kubectl("create", "token", "default").strip()
    config = as_user(cluster, tmp_path / "config", {"token": token})
    account = f"--serviceaccount={cluster.namespace}:default"

    async def run() -> None:
        async with following(cluster, kubeconfig=config) as follower:
            await eventually("a problem", lambda: "no right to list configmaps" in str(follower.problem))
            await asyncio.to_thread(cluster.kubectl, "create", "rolebinding", "see", "--clusterrole=view", account)
            await eventually("the list", lambda: follower.cache.synced)
            assert names(follower) == ["a"] and follower.problem is None

    asyncio.run(run())
