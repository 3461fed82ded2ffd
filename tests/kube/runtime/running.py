"""An operator that runs while a test looks on: `async with running(cluster, operator) as client:`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import fleet.kube.runtime as kube
from fleet.testing import Cluster
from tests.kube.with_client import agent


@contextlib.asynccontextmanager
async def running(
    cluster: Cluster, operator: kube.Operator, *, kubeconfig: Path | None = None
) -> AsyncIterator[kube.GuardedClient]:
    """Stopped in an orderly way at the end; an error of it fails the test."""
    options: dict[str, Any] = {"context": cluster.context, "agent": agent(cluster)}
    async with kube.GuardedClient(kubeconfig=kubeconfig or cluster.kubeconfig, **options) as client:
        task = asyncio.create_task(operator.run(client))
        try:
            yield client
        finally:
            operator.stop()
            await asyncio.wait_for(task, 60)


async def eventually(what: str, condition: Callable[[], Any], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        await asyncio.sleep(0.05)
