"""Connections to clusters: each an open client, its watches and its events, kept from pass to pass.

A cluster is reached as git says: by a context of the kubeconfig, or with the kubeconfig that a Secret of the management
cluster holds. A connection whose way has changed, or whose credentials were refused, is closed when the last pass is
through with it, and the next pass opens it anew.

There is one watch per kind that is deployed in a cluster. It sees only objects that carry our label, in all namespaces.
Most events change nothing: versions, heartbeats, the bookkeeping of other field managers. So an object's content and
health are kept as a digest (see `digest_object`), and only a change of it calls for a pass over the stack. The pass
looks for itself, so nothing that a watch reports has to be believed. A watch that is forbidden, or breaks, is no error
of a stack: it is tried again, and meanwhile the regular resync finds what the watch would have reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from fleet.apps.registry import is_app
from fleet.errors import FleetError
from fleet.evaluate.result import ClusterData
from fleet.kube.client.client import Client
from fleet.kube.concurrency import end_tasks
from fleet.kube.live import OURS
from fleet.kube.objects import ObjectScope
from fleet.kube.runtime.events import Recorder
from fleet.kube.watch import ListedObjects, watch_changes
from fleet.objects.desired import Desired, Key
from fleet.objects.resource import Resource
from fleet.serve.cluster_secrets import open_client, read_secret_kubeconfig
from fleet.serve.options import ServeOptions
from fleet.serve.queue import ReconcileQueue
from fleet.serve.report.metrics import recorder
from fleet.sync.health import object_health
from fleet.sync.options import connect
from fleet.sync.result import ObjectHealth

_NOISE = frozenset({"resourceVersion", "managedFields", "generation", "selfLink"})


class ObjectDigest(NamedTuple):
    """Digest of a live object: an event that leaves it as it was changes nothing that matters."""

    content: bytes  # a digest of everything except the status
    health: ObjectHealth


def digest_object(key: Key, live: dict[str, Any], *, is_app: bool) -> ObjectDigest:
    """Return the digest of a live object's content and health.

    Left out is what changes without a change of the object, such as `managedFields`.
    """
    metadata = {name: value for name, value in live["metadata"].items() if name not in _NOISE}
    content = {**live, "metadata": metadata}
    content.pop("status", None)
    text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return ObjectDigest(hashlib.blake2b(text, digest_size=16).digest(), object_health(key, live, is_app=is_app))


Kind = tuple[str, str, str]  # group, version, kind
AGAIN = 30.0  # seconds until a watch that failed is tried again

log = logging.getLogger(__name__)


def kinds_of(desired: Iterable[Desired]) -> frozenset[Kind]:
    """Return the kinds of all objects of some stacks."""
    return frozenset(obj.kind for stack in desired for obj in stack.objects)


class ClusterWatch:
    """Watches of one cluster: a stack of which an object changed is enqueued for a pass.

    `follow` sets which kinds are watched from now on. When the cluster stops answering and when it answers again, what
    is known of it may be old: then the whole cluster is enqueued.
    """

    def __init__(self, client: Client, cluster: str, queue: ReconcileQueue) -> None:
        self.client = client
        self._cluster = cluster
        self._queue = queue
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
        """Watch one kind for ever, and again after a failure."""
        warned = ""
        while True:
            try:
                resource = await self._resource(kind)
                if resource is not None:
                    await self._see(resource)
            except FleetError as problem:
                if problem.message != warned:
                    warned = problem.message
                    log.warning("cannot watch %s: %s", kind[2], warned, extra={"cluster": self.client.cluster})
            except Exception as problem:  # unexpected, of one object; the watches of other kinds go on
                warned = type(problem).__name__
                log.exception("cannot watch %s", kind[2], extra={"cluster": self.client.cluster})
            await asyncio.sleep(AGAIN if warned else 1.0)

    async def _resource(self, kind: Kind) -> Resource | None:
        """Return the resource of a kind; None while it is not served: its definition may come with the first sync."""
        resource = (await self.client.discovery()).find(kind[0], kind[2], kind[1])
        if resource is None:
            self.client.forget_discovery()
        return resource

    async def _see(self, resource: Resource) -> None:
        """Watch a resource; call for a pass over each stack of which an object changed."""
        digests: dict[Key, ObjectDigest] = {}
        stacks: dict[Key, str] = {}
        async for event in watch_changes(
            self.client,
            ObjectScope(resource, labels=OURS),
            on_turn=lambda works: self._queue.enqueue_clusters(self._cluster),
        ):
            manifests = event.objects if isinstance(event, ListedObjects) else [event.object]
            live = {Key.of(manifest): manifest for manifest in manifests}
            gone = digests.keys() - live.keys() if isinstance(event, ListedObjects) else set[Key]()
            if not isinstance(event, ListedObjects) and event.deleted:
                gone, live = set(live), {}
            moved = {stacks.pop(key, "") for key in gone if digests.pop(key, None)}
            for key, manifest in live.items():
                digest = digest_object(key, manifest, is_app=is_app(key.group, key.kind))
                if digests.get(key) != digest:
                    digests[key] = digest
                    stacks[key] = (manifest["metadata"].get("labels") or {}).get(OURS, "")
                    moved.add(stacks[key])
            for stack in moved - {""}:
                self._queue.enqueue_changed(stack, self._cluster)


@dataclass(slots=True)
class ClusterConnection:
    """Connection to one cluster, with the number of passes that use it."""

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
    """Connections of one repository: `async with connections.connect(cluster, kinds) as client`.

    What the watches report is enqueued.
    """

    def __init__(self, options: ServeOptions, queue: ReconcileQueue) -> None:
        self._options = options
        self._queue = queue
        self._connections: dict[str, ClusterConnection] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[ClusterConnection]:
        return iter(list(self._connections.values()))

    def get(self, cluster: str) -> ClusterConnection | None:
        return self._connections.get(cluster)

    @contextlib.asynccontextmanager
    async def connect(self, cluster: ClusterData, kinds: frozenset[Kind]) -> AsyncIterator[Client]:
        """Keep a connection to a cluster in use, with watches of these kinds; open it if there is none."""
        async with self._opening.setdefault(cluster.name, asyncio.Lock()):
            connection = self._connections.get(cluster.name)
            if connection is None:
                connection = self._connections[cluster.name] = await self._open_connection(cluster)
        connection.watching.follow(kinds)
        connection.users += 1
        try:
            yield connection.client
        finally:
            connection.users -= 1
            if connection.retired and not connection.users:
                self._close(connection)

    def retire(self, cluster: str) -> None:
        """Close the connection when no pass uses it any more; the next pass opens it anew."""
        connection = self._connections.pop(cluster, None)
        if connection is not None:
            connection.retired = True
            if not connection.users:
                self._close(connection)

    async def close(self) -> None:
        for connection in self:
            self.retire(connection.cluster.name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close(self, connection: ClusterConnection) -> None:
        task = asyncio.create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _open_connection(self, cluster: ClusterData) -> ClusterConnection:
        """Return a new connection to a cluster."""
        with contextlib.ExitStack() as resources:
            client = await self._client(cluster, resources)
            await client.__aenter__()
            kubeconfig = resources.pop_all()
        watching = ClusterWatch(client, cluster.name, self._queue)
        events = recorder(client)
        return ClusterConnection(cluster, client, watching, events, asyncio.create_task(events.run()), kubeconfig)

    async def _client(self, cluster: ClusterData, resources: contextlib.ExitStack) -> Client:
        """Return a client for a cluster; raise AccessError if the repository may not reach it."""
        options = self._options
        if options.inside:
            return Client(in_cluster=True, cluster=cluster.name)
        options.scope.check_reach(cluster)
        if not cluster.secret or options.management is None:
            return connect(cluster, options.kubeconfig)
        kubeconfig = await read_secret_kubeconfig(cluster, options.management)
        return open_client(cluster, kubeconfig, resources, trusted=options.trust_kubeconfigs)
