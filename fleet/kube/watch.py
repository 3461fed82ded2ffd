"""Changes of objects as they happen, and waits for health.

`watch_changes` is the list-and-watch loop (`list_watch`) for callers that keep no cache: all objects, then each change.

`wait_for_health` waits until objects are healthy: it reads them once, then watches only those that are not, and reports
each change. A few namespaces are watched; objects scattered over many are read again every other second instead,
because each watch is a connection. Most syncs end after the first read.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.kube.health import Health, State, judge
from fleet.kube.list_watch import EventKind, Interruption, ListWatch
from fleet.kube.live import Live, read_around, read_live
from fleet.kube.objects import ObjectScope, drop_other_fields
from fleet.objects.desired import Key
from fleet.objects.resource import Resource

SILENCE = 150.0


@dataclass(frozen=True, slots=True)
class ListedObjects:
    """All objects in the scope, as of one moment. Comes first, and again after a gap that could not be bridged."""

    objects: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """One object that was created, changed or deleted."""

    object: dict[str, Any]
    deleted: bool = False


async def watch_changes(
    client: Client,
    scope: ObjectScope,
    *,
    silence: float = SILENCE,
    on_turn: Callable[[bool], None] = lambda works: None,
) -> AsyncIterator[ListedObjects | ChangedObject]:
    """Yield the objects and then their changes, without end; the caller closes it by leaving the loop.

    Raise only errors that will not pass: a missing right, a kind that is not served. `on_turn` is called when the
    connection breaks (False) and when it works again (True): meanwhile the known objects may be out of date.
    """
    objects: list[dict[str, Any]] = []
    works = True
    async with contextlib.aclosing(ListWatch(client, scope, silence).events()) as events:
        async for event in events:
            if isinstance(event, Interruption):
                if event.problem and event.lasts:
                    raise event.problem
                if works:
                    on_turn(False)
                works = False
                continue
            if event.kind is EventKind.LISTING:
                objects = []
                continue
            if event.kind is EventKind.LISTED:
                objects.append(_with_kind(scope.resource, event.object))
                continue
            if not works:
                on_turn(True)
            works = True
            if event.kind is EventKind.COMPLETE:
                yield ListedObjects(objects)
            elif event.kind is not EventKind.BOOKMARK:
                yield ChangedObject(_with_kind(scope.resource, event.object), event.kind is EventKind.DELETED)


def _with_kind(resource: Resource, item: dict[str, Any]) -> dict[str, Any]:
    return drop_other_fields({**item, "apiVersion": resource.api_version, "kind": resource.kind})


MANY = 16  # watches at once; beyond that, lists
EVERY = 2.0

OnChange = Callable[[Key, Health], None]


class HealthWait:
    """The health of some objects while they are watched."""

    def __init__(self, keys: Iterable[Key], on_change: OnChange | None, unknown_seconds: float) -> None:
        self.health: dict[Key, Health] = {key: Health(State.UNKNOWN) for key in keys}
        self._on_change = on_change
        self._patient_until = time.monotonic() + unknown_seconds
        self._around: Live = {}

    async def look(self, client: Client, live: Live) -> None:
        """Judge the objects, reading what else their health depends on."""
        self._around.update(await read_around(client, live))
        for key, item in live.items():
            self._see(key, item)

    def _see(self, key: Key, live: dict[str, Any] | None) -> None:
        health = judge(live, self._around)
        if health != self.health[key]:
            self.health[key] = health
            if self._on_change:
                self._on_change(key, health)

    def is_over(self, key: Key) -> bool:
        """Return whether an object is settled, or has no report and, without an operator to report, will have none."""
        health = self.health[key]
        is_unreported = health.state is State.UNKNOWN and time.monotonic() > self._patient_until
        return health.is_settled or is_unreported

    def open(self, keys: Iterable[Key]) -> list[Key]:
        """Return the keys of the objects that still have to be waited for."""
        return [key for key in keys if not self.is_over(key)]


async def wait_for_health(
    client: Client,
    keys: Iterable[Key],
    *,
    seconds: float,
    versions: Mapping[Key, str] | None = None,
    on_change: OnChange | None = None,
    unknown_seconds: float = 10.0,
) -> dict[Key, Health]:
    """Wait until all objects are settled or the time is up, and return their health; `is_settled` tells which it is.

    An app without any report for `unknown_seconds` is not waited for longer: there is no operator to report.
    """
    waiting = HealthWait(dict.fromkeys(keys), on_change, unknown_seconds)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting.look(client, await read_live(client, waiting.health, versions))
            await _wait_until_over(client, waiting, versions or {})
    return waiting.health


async def _wait_until_over(client: Client, waiting: HealthWait, versions: Mapping[Key, str]) -> None:
    open_keys = waiting.open(waiting.health)
    if not open_keys:
        return
    discovery = await client.discovery()
    groups: dict[tuple[Resource, str], list[Key]] = defaultdict(list)
    unserved = []
    for key in open_keys:
        version = versions.get(key)
        resource = (discovery.find(key.group, key.kind, version) if version else None) or discovery.find(
            key.group, key.kind
        )
        if resource is None:
            unserved.append(key)
        else:
            groups[resource, key.namespace].append(key)
    if unserved or len(groups) > MANY:
        await _poll(client, waiting, open_keys, versions)
    else:
        await gather(_watch_group(client, waiting, *group, members) for group, members in groups.items())


async def _poll(client: Client, waiting: HealthWait, keys: list[Key], versions: Mapping[Key, str]) -> None:
    while keys := waiting.open(keys):
        await asyncio.sleep(EVERY)
        await waiting.look(client, await read_live(client, keys, versions))


async def _watch_group(
    client: Client, waiting: HealthWait, resource: Resource, namespace: str, keys: list[Key]
) -> None:
    """Watch objects of one kind and namespace until all of them are over.

    The clock can end the wait too, so it is checked while no event comes.
    """
    only = f"metadata.name={keys[0].name}" if len(keys) == 1 else ""
    watcher = asyncio.create_task(_see_changes(client, waiting, ObjectScope(resource, namespace, fields=only), keys))
    try:
        while waiting.open(keys) and not watcher.done():
            await asyncio.wait([watcher], timeout=0.5)
        if watcher.done():
            watcher.result()
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


async def _see_changes(client: Client, waiting: HealthWait, scope: ObjectScope, keys: list[Key]) -> None:
    by_name = {key.name: key for key in keys}
    async for event in watch_changes(client, scope):
        if isinstance(event, ListedObjects):
            live = {item["metadata"]["name"]: item for item in event.objects}
            await waiting.look(client, {key: live.get(name) for name, key in by_name.items()})
        elif (name := event.object["metadata"]["name"]) in by_name:
            await waiting.look(client, {by_name[name]: None if event.deleted else event.object})
        if not waiting.open(keys):
            return
