"""Wait until objects are healthy: look once, then watch only what is not, and say each time that something changes.

A few namespaces are watched; objects scattered over many are read again every other second instead, because each
watch is a connection. Most syncs end with the first look.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleet.kube.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.health import Health, State, judge
from fleet.kube.live import Live, read_around, read_live
from fleet.kube.objects import Scope
from fleet.kube.together import together
from fleet.kube.watch import Listed, changes
from fleet.model.desired import Key

MANY = 16  # watches at once; beyond that, lists
EVERY = 2.0

OnChange = Callable[[Key, Health], None]


class Waiting:
    """The health of some objects as it comes to be known."""

    def __init__(self, keys: Iterable[Key], on_change: OnChange | None, unknown_seconds: float) -> None:
        self.health: dict[Key, Health] = {key: Health(State.UNKNOWN) for key in keys}
        self._on_change = on_change
        self._patient_until = time.monotonic() + unknown_seconds
        self._around: Live = {}

    async def look(self, client: Client, live: Live) -> None:
        """See objects, with what they are judged by."""
        self._around.update(await read_around(client, live))
        for key, found in live.items():
            self._see(key, found)

    def _see(self, key: Key, found: dict[str, Any] | None) -> None:
        health = judge(found, self._around)
        if health != self.health[key]:
            self.health[key] = health
            if self._on_change:
                self._on_change(key, health)

    def is_over(self, key: Key) -> bool:
        """Settled; or nobody reports on it, and nobody will: there is no operator for it."""
        health = self.health[key]
        unheard = health.state is State.UNKNOWN and time.monotonic() > self._patient_until
        return health.is_settled or unheard

    def open(self, keys: Iterable[Key]) -> list[Key]:
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
    """The health of each object when all are settled or the time is up; look at `is_settled` to tell which.

    An app of which nothing is heard for `unknown_seconds` is not waited for longer: no operator is there to report.
    """
    waiting = Waiting(dict.fromkeys(keys), on_change, unknown_seconds)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting.look(client, await read_live(client, waiting.health, versions))
            await _follow(client, waiting, versions or {})
    return waiting.health


async def _follow(client: Client, waiting: Waiting, versions: Mapping[Key, str]) -> None:
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
        await together(_watch_group(client, waiting, *group, members) for group, members in groups.items())


async def _poll(client: Client, waiting: Waiting, keys: list[Key], versions: Mapping[Key, str]) -> None:
    while keys := waiting.open(keys):
        await asyncio.sleep(EVERY)
        await waiting.look(client, await read_live(client, keys, versions))


async def _watch_group(client: Client, waiting: Waiting, resource: Resource, namespace: str, keys: list[Key]) -> None:
    """Until all of these are over. The clock can end it too, so it is looked at while nothing happens."""
    only = f"metadata.name={keys[0].name}" if len(keys) == 1 else ""
    watcher = asyncio.create_task(_see_changes(client, waiting, Scope(resource, namespace, fields=only), keys))
    try:
        while waiting.open(keys) and not watcher.done():
            await asyncio.wait([watcher], timeout=0.5)
        if watcher.done():
            watcher.result()
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


async def _see_changes(client: Client, waiting: Waiting, scope: Scope, keys: list[Key]) -> None:
    by_name = {key.name: key for key in keys}
    async for event in changes(client, scope):
        if isinstance(event, Listed):
            there = {found["metadata"]["name"]: found for found in event.objects}
            await waiting.look(client, {key: there.get(name) for name, key in by_name.items()})
        elif (name := event.object["metadata"]["name"]) in by_name:
            await waiting.look(client, {by_name[name]: None if event.deleted else event.object})
        if not waiting.open(keys):
            return
