"""A client in a plain test function: `connected(cluster, work)` runs `await work(client)` and returns its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fleet.kube.client import Client
from fleet.testing import Cluster

T = TypeVar("T")


def connected(cluster: Cluster, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        async with Client.of(cluster.kubeconfig, cluster.context, **options) as client:
            return await work(client)

    return asyncio.run(run())


def config_map(cluster: Cluster, name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "data": data,
    }
