"""The clusters that a service has reached: each client is kept open from pass to pass, with its watches and events.

A cluster is reached as git says: by a context of the kubeconfig, or with the kubeconfig that a Secret of the management
cluster holds. One that is reached in another way by now, or whose credentials were refused, is closed when the last
pass is through with it and opened anew by the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fleet.evaluate.result import ClusterData
from fleet.kube.client import Client
from fleet.kube.runtime.ending import end
from fleet.kube.runtime.events import Recorder
from fleet.serve.happenings import recorder
from fleet.serve.scope import SHARED, Scope
from fleet.serve.secret import client_of, kubeconfig_of
from fleet.serve.watching import Kind, Watching
from fleet.sync.run import connect


@dataclass(slots=True)
class Site:
    cluster: ClusterData
    client: Client
    watching: Watching
    events: Recorder
    recording: asyncio.Task[None]
    kubeconfig: contextlib.ExitStack
    users: int = 0
    retired: bool = False

    async def close(self) -> None:
        await self.watching.close()
        await end(self.recording)
        await self.client.__aexit__(None, None, None)
        self.kubeconfig.close()


class Sites:
    """`async with sites.reached(cluster, kinds) as site`. `changed(stack, cluster)` hears what the watches tell."""

    def __init__(
        self,
        kubeconfig: Path | None,
        management: Client | None,
        changed: Callable[[str, str], None],
        turned: Callable[[str], None],
        *,
        inside: bool = False,
        trusted: bool = False,
        scope: Scope = SHARED,
    ) -> None:
        self._scope = scope
        self._inside = inside
        self._trusted = trusted
        self._kubeconfig = kubeconfig
        self._management = management
        self._changed = changed
        self._turned = turned
        self._sites: dict[str, Site] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Site]:
        return iter(list(self._sites.values()))

    def get(self, cluster: str) -> Site | None:
        return self._sites.get(cluster)

    @contextlib.asynccontextmanager
    async def reached(self, cluster: ClusterData, kinds: frozenset[Kind]) -> AsyncIterator[Client]:
        async with self._opening.setdefault(cluster.name, asyncio.Lock()):
            site = self._sites.get(cluster.name)
            if site is None:
                site = self._sites[cluster.name] = await self._opened(cluster)
        site.watching.follow(kinds)
        site.users += 1
        try:
            yield site.client
        finally:
            site.users -= 1
            if site.retired and not site.users:
                self._close(site)

    def retire(self, cluster: str) -> None:
        """Whoever reaches it next opens it anew."""
        site = self._sites.pop(cluster, None)
        if site is not None:
            site.retired = True
            if not site.users:
                self._close(site)

    async def close(self) -> None:
        for site in self:
            self.retire(site.cluster.name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close(self, site: Site) -> None:
        task = asyncio.create_task(site.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _opened(self, cluster: ClusterData) -> Site:
        name = cluster.name
        with contextlib.ExitStack() as held:
            client = await self._client(cluster, held)
            await client.__aenter__()
            kept = held.pop_all()
        watching = Watching(client, lambda stack: self._changed(stack, name), lambda: self._turned(name))
        events = recorder(client)
        return Site(cluster, client, watching, events, asyncio.create_task(events.run()), kept)

    async def _client(self, cluster: ClusterData, held: contextlib.ExitStack) -> Client:
        if self._inside:
            return Client(in_cluster=True, cluster=cluster.name)
        self._scope.check_reach(cluster)
        if not cluster.secret or self._management is None:
            return connect(cluster, self._kubeconfig)
        return client_of(cluster, await kubeconfig_of(cluster, self._management), held, trusted=self._trusted)
