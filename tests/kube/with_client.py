"""A client in a plain test function: `connected(cluster, work)` runs `await work(client)` and returns its result.

Its user agent is the test's own (`agent(cluster)`), so that the audit log tells its requests from those of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fleet.kube.client.client import Client
from fleet.objects.desired import Key
from fleet.testing import Cluster

T = TypeVar("T")


def agent(cluster: Cluster) -> str:
    return f"fleet/{cluster.namespace}"


def connected(cluster: Cluster, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        async with Client.of(cluster.kubeconfig, cluster.context, **{"agent": agent(cluster), **options}) as client:
            return await work(client)

    return asyncio.run(run())


def config_map(cluster: Cluster, name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "data": data,
    }


def make(cluster: Cluster, *manifests: dict[str, Any]) -> None:
    """Apply many objects, in any namespace, quicker than kubectl and as a client that is not under test."""

    async def work(client: Client) -> None:
        discovery = await client.discovery()

        async def one(manifest: dict[str, Any]) -> None:
            path = discovery.resource(Key.of(manifest)).path(
                manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
            )
            await client.request(
                "PATCH", f"{path}?fieldManager=somebody", body=manifest, content_type="application/apply-patch+yaml"
            )

        await asyncio.gather(*map(one, manifests))

    connected(cluster, work, agent="somebody")
