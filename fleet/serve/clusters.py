"""Open clients, watches and credentials per cluster.

What of a live object matters to whoever wants it: its content, and how it is. Pure.

A watch tells every change, and most are none: versions, heartbeats, the bookkeeping of other managers.

One cluster under watch: a client that stays open, and one watch per kind that is deployed there.

Only what carries our label is watched, over all namespaces. A change that matters (see `notice`) calls for a pass over
its stack; the pass looks for itself, so nothing that is seen here has to be believed. A watch that may not be, or
breaks, is no error of a stack: it is tried again, and meanwhile the regular look finds what it would have told.

The clusters that a service has reached: each client is kept open from pass to pass, with its watches and events.

A cluster is reached as git says: by a context of the kubeconfig, or with the kubeconfig that a Secret of the management
cluster holds. One that is reached in another way by now, or whose credentials were refused, is closed when the last
pass is through with it and opened anew by the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from fleet.errors import FleetError
from fleet.evaluate.result import ClusterData
from fleet.kube.client.client import Client
from fleet.kube.concurrency import end_tasks
from fleet.kube.discovery import Resource
from fleet.kube.live import OURS
from fleet.kube.objects import Scope
from fleet.kube.runtime.events import Recorder
from fleet.kube.watch import ListedObjects, watch_changes
from fleet.names import GROUP
from fleet.objects.desired import Desired, Key
from fleet.serve.cluster_secrets import open_client, read_secret_kubeconfig
from fleet.serve.report.metrics import recorder
from fleet.serve.scope import SHARED, RepositoryScope
from fleet.sync.health import object_health
from fleet.sync.options import connect
from fleet.sync.result import ObjectHealth

_NOISE = frozenset({"resourceVersion", "managedFields", "generation", "selfLink"})


class ObjectDigest(NamedTuple):
    content: bytes  # a digest of all but the status
    health: ObjectHealth


def digest_object(key: Key, found: dict[str, Any], *, is_app: bool) -> ObjectDigest:
    metadata = {name: value for name, value in found["metadata"].items() if name not in _NOISE}
    content = {**found, "metadata": metadata}
    content.pop("status", None)
    text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return ObjectDigest(hashlib.blake2b(text, digest_size=16).digest(), object_health(key, found, is_app=is_app))


Kind = tuple[str, str, str]  # group, version, kind
AGAIN = 30.0  # seconds until a watch that was refused is asked for again

log = logging.getLogger(__name__)


def kinds_of(desired: Iterable[Desired]) -> frozenset[Kind]:
    found: set[Kind] = set()
    for one in desired:
        for each in one.objects:
            group, _, version = each.manifest["apiVersion"].rpartition("/")
            found.add((group, version, each.manifest["kind"]))
    return frozenset(found)


class ClusterWatch:
    """`call(stack)` is called when something of it changed. `follow` says which kinds count from now on.

    `turned` is called when the cluster stops answering and when it answers again.
    """

    def __init__(self, client: Client, call: Callable[[str], None], turned: Callable[[], None]) -> None:
        self.client = client
        self._call = call
        self._turned = turned
        self._tasks: dict[Kind, asyncio.Task[None]] = {}

    @property
    def kinds(self) -> int:
        return len(self._tasks)

    def follow(self, kinds: frozenset[Kind]) -> None:
        for kind in self._tasks.keys() - kinds:
            self._tasks.pop(kind).cancel()
        for kind in kinds - self._tasks.keys():
            self._tasks[kind] = asyncio.create_task(self._watch(kind))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self.follow(frozenset())
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, kind: Kind) -> None:
        told = ""
        while True:
            try:
                resource = await self._resource(kind)
                if resource is not None:
                    await self._see(resource)
            except FleetError as problem:
                if problem.message != told:
                    told = problem.message
                    log.warning("cannot watch %s: %s", kind[2], told, extra={"cluster": self.client.cluster})
            except Exception as problem:  # of one object that nobody foresaw; other kinds go on
                told = type(problem).__name__
                log.exception("cannot watch %s", kind[2], extra={"cluster": self.client.cluster})
            await asyncio.sleep(AGAIN if told else 1.0)

    async def _resource(self, kind: Kind) -> Resource | None:
        """None while it is not served: its definition may come with the first sync."""
        found = (await self.client.discovery()).find(kind[0], kind[2], kind[1])
        if found is None:
            self.client.forget_discovery()
        return found

    async def _see(self, resource: Resource) -> None:
        known: dict[Key, ObjectDigest] = {}
        stacks: dict[Key, str] = {}
        async for event in watch_changes(
            self.client, Scope(resource, labels=OURS), on_turn=lambda works: self._turned()
        ):
            found = event.objects if isinstance(event, ListedObjects) else [event.object]
            there = {Key.of(one): one for one in found}
            gone = known.keys() - there.keys() if isinstance(event, ListedObjects) else set[Key]()
            if not isinstance(event, ListedObjects) and event.deleted:
                gone, there = set(there), {}
            moved = {stacks.pop(key, "") for key in gone if known.pop(key, None)}
            for key, one in there.items():
                seen = digest_object(key, one, is_app=key.group == GROUP)
                if known.get(key) != seen:
                    known[key] = seen
                    stacks[key] = (one["metadata"].get("labels") or {}).get(OURS, "")
                    moved.add(stacks[key])
            for stack in moved - {""}:
                self._call(stack)


@dataclass(slots=True)
class ClusterConnection:
    cluster: ClusterData
    client: Client
    watching: ClusterWatch
    events: Recorder
    recording: asyncio.Task[None]
    kubeconfig: contextlib.ExitStack
    users: int = 0
    retired: bool = False

    async def close(self) -> None:
        await self.watching.close()
        await end_tasks(self.recording)
        await self.client.__aexit__(None, None, None)
        self.kubeconfig.close()


class ClusterConnections:
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
        scope: RepositoryScope = SHARED,
    ) -> None:
        self._scope = scope
        self._inside = inside
        self._trusted = trusted
        self._kubeconfig = kubeconfig
        self._management = management
        self._changed = changed
        self._turned = turned
        self._sites: dict[str, ClusterConnection] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[ClusterConnection]:
        return iter(list(self._sites.values()))

    def get(self, cluster: str) -> ClusterConnection | None:
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

    def _close(self, site: ClusterConnection) -> None:
        task = asyncio.create_task(site.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _opened(self, cluster: ClusterData) -> ClusterConnection:
        name = cluster.name
        with contextlib.ExitStack() as held:
            client = await self._client(cluster, held)
            await client.__aenter__()
            kept = held.pop_all()
        watching = ClusterWatch(client, lambda stack: self._changed(stack, name), lambda: self._turned(name))
        events = recorder(client)
        return ClusterConnection(cluster, client, watching, events, asyncio.create_task(events.run()), kept)

    async def _client(self, cluster: ClusterData, held: contextlib.ExitStack) -> Client:
        if self._inside:
            return Client(in_cluster=True, cluster=cluster.name)
        self._scope.check_reach(cluster)
        if not cluster.secret or self._management is None:
            return connect(cluster, self._kubeconfig)
        return open_client(
            cluster, await read_secret_kubeconfig(cluster, self._management), held, trusted=self._trusted
        )
