"""How stacks are now, once or continuously.

How the stacks in the clusters are now: from inventories and live objects, without evaluating anything.

The fleet as it changes: looked at again and again, and what is different told. Reads only.

What has happened is found by comparing two looks, so nothing is lost between them that still matters; warnings of the
clusters about the same namespaces are told beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.apply.inventory import load_all
from fleet.apps.registry import packages
from fleet.errors import AccessError, FleetError
from fleet.evaluate import ClusterData
from fleet.kube.cause import explain_health
from fleet.kube.client.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.health import State
from fleet.kube.live import read_around, read_live
from fleet.kube.objects import ListExpiredError, Scope, pages
from fleet.model.app import GROUP
from fleet.objects.desired import Key, StackCluster
from fleet.plan import Inventory, RepositoryOwnership
from fleet.sync.health import object_health, worst_state
from fleet.sync.options import connect
from fleet.sync.redaction import redact_health, secrets_of_plan
from fleet.sync.result import ObjectHealth


@dataclass(frozen=True, slots=True)
class StackStatus:
    """One stack in one cluster."""

    stack: str
    cluster: str
    revision: str
    health: str
    objects: tuple[ObjectHealth, ...]
    suspended: str = ""  # that it is left as it is, by whom and why


@dataclass(frozen=True, slots=True)
class FleetStatus:
    stacks: tuple[StackStatus, ...]
    failed: dict[str, FleetError]  # by cluster
    others: dict[str, tuple[str, ...]]  # by cluster: stacks of other repositories, which are not looked at


async def observe_fleet(
    clusters: Sequence[ClusterData], stacks: Sequence[str], kubeconfig: Path | None, claim: RepositoryOwnership
) -> FleetStatus:
    """All stacks (or those named) in these clusters; a cluster that cannot be asked is in `failed`."""
    failed: dict[str, FleetError] = {}
    others: dict[str, tuple[str, ...]] = {}

    async def one(cluster: ClusterData) -> list[StackStatus]:
        if cluster.pull:
            return []
        try:
            async with connect(cluster, kubeconfig) as client:
                seen, others[cluster.name] = await read_stack_status(client, stacks, claim)
                return seen
        except FleetError as problem:
            failed[cluster.name] = problem
            return []

    seen = await asyncio.gather(*(one(cluster) for cluster in clusters))
    ordered = sorted((each for part in seen for each in part), key=lambda o: (o.stack, o.cluster))
    return FleetStatus(tuple(ordered), failed, {cluster: names for cluster, names in others.items() if names})


async def read_stack_status(
    client: Client, stacks: Sequence[str], claim: RepositoryOwnership
) -> tuple[list[StackStatus], tuple[str, ...]]:
    """How stacks are in one cluster, and the names of those that are another repository's."""
    found = [stored.inventory for stored in await load_all(client)]
    found = [each for each in found if not stacks or each.stack in stacks]
    others = tuple(each.stack for each in found if not claim.covers(each))
    return await _observed(client, [each for each in found if claim.covers(each)]), others


async def _observed(client: Client, inventories: Sequence[Inventory]) -> list[StackStatus]:
    versions = {entry.key: entry.version for inventory in inventories for entry in inventory.entries}
    live = await read_live(client, versions, versions)
    live.update(await read_around(client, live))
    hidden = secrets_of_plan((), [live])
    causes = await explain_health(client, live, live)
    observed = []
    for inventory in inventories:
        keys = [entry.key for entry in inventory.entries]
        found = (object_health(key, live[key], live, is_app=_is_app(key), cause=causes.get(key, "")) for key in keys)
        objects = redact_health((*found, *(_not_made(key) for key in inventory.missing if key not in versions)), hidden)
        word = str(inventory.suspension or "")
        observed.append(
            StackStatus(inventory.stack, client.cluster, inventory.revision, worst_state(objects), objects, word)
        )
    return observed


def _not_made(key: Key) -> ObjectHealth:
    """What the last sync could not create is missing, though no inventory entry says that it should be there."""
    message = "the last sync was to create it, and could not"
    return ObjectHealth(key.kind, key.namespace, key.name, State.MISSING.value, message, is_app=_is_app(key))


def _is_app(key: Key) -> bool:
    return key.group == GROUP and key.kind.lower() in packages()


EVENTS = Resource("", "v1", "Event", "events", True)


@dataclass(frozen=True, slots=True)
class Warn:
    """What a cluster has to say about an object."""

    cluster: str
    uid: str
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The fleet at one moment. A cluster that cannot be asked keeps what was seen of it last."""

    stacks: dict[StackCluster, StackStatus] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    warnings: frozenset[Warn] = frozenset()

    @property
    def is_well(self) -> bool:
        return not self.failed and all(one.health == "Healthy" for one in self.stacks.values())


def describe_changes(before: FleetSnapshot | None, now: FleetSnapshot) -> list[str]:
    """Pure: what is different, a line each. Of the first sight, how everything is."""
    lines = [f"{cluster}: cannot be asked: {why}" for cluster, why in now.failed.items() if _is_new(before, cluster)]
    for pair, one in sorted(now.stacks.items()):
        lines += _changes(before.stacks.get(pair) if before else None, one)
    if before is None:
        return lines
    lines += [f"{cluster}: answers again" for cluster in before.failed if cluster not in now.failed]
    lines += [f"{stack} on {cluster}: is gone" for stack, cluster in sorted(before.stacks.keys() - now.stacks.keys())]
    return [*lines, *sorted(f"{one.cluster}: {one.text}" for one in now.warnings - before.warnings)]


def _is_new(before: FleetSnapshot | None, cluster: str) -> bool:
    return before is None or cluster not in before.failed


def _changes(before: StackStatus | None, now: StackStatus) -> list[str]:
    name = f"{now.stack} on {now.cluster}"
    if before is None:
        return [f"{name}: {now.health} at {now.revision[:8] or 'no revision'}{_why(now)}"]
    lines = []
    if before.revision != now.revision:
        lines.append(f"{name}: {before.revision[:8]} → {now.revision[:8]}")
    if before.health != now.health:
        lines.append(f"{name}: {before.health} → {now.health}{_why(now)}")
    if before.suspended != now.suspended:
        lines.append(f"{name}: {now.suspended or 'resumed'}")
    known = {one.title: one for one in before.objects}
    for one in now.objects:
        was = known.get(one.title)
        if was is None or (was.state, was.members, was.version) != (one.state, one.members, one.version):
            progress = " ".join(filter(None, (one.version, one.members, one.state)))
            lines.append(f"{name}: {one.title} {progress}" + (f": {one.message}" if one.message else ""))
    lines += [f"{name}: {title} is gone" for title in known.keys() - {one.title for one in now.objects}]
    return lines


def _why(one: StackStatus) -> str:
    ill = next((each for each in one.objects if each.state == one.health != "Healthy"), None)
    return f" ({ill.title}: {ill.message})" if ill and ill.message else ""


@dataclass(slots=True)
class FleetWatcher:
    """Looks at these clusters for these stacks (or all); connections are kept from one look to the next."""

    clusters: Sequence[ClusterData]
    stacks: Sequence[str]
    kubeconfig: Path | None
    claim: RepositoryOwnership
    _clients: dict[str, Client] = field(default_factory=dict)

    async def sights(self, *, every: float) -> AsyncIterator[FleetSnapshot]:
        """One look after the other, for ever."""
        last = FleetSnapshot()
        async with AsyncExitStack() as stack:
            while True:
                last = await self._sight(stack, last)
                yield last
                await asyncio.sleep(every)

    async def _sight(self, stack: AsyncExitStack, last: FleetSnapshot) -> FleetSnapshot:
        found: dict[StackCluster, StackStatus] = {}
        failed: dict[str, str] = {}
        warnings: set[Warn] = set()
        looks = await asyncio.gather(*(self._look(one, stack) for one in self.clusters))
        for cluster, look in zip(self.clusters, looks, strict=True):
            if isinstance(look, FleetError):
                failed[cluster.name] = look.message
                found |= {pair: one for pair, one in last.stacks.items() if pair[1] == cluster.name}
                warnings |= {one for one in last.warnings if one.cluster == cluster.name}
            else:
                found |= {(one.stack, one.cluster): one for one in look[0]}
                warnings |= look[1]
        return FleetSnapshot(found, failed, frozenset(warnings))

    async def _look(
        self, cluster: ClusterData, stack: AsyncExitStack
    ) -> tuple[list[StackStatus], set[Warn]] | FleetError:
        if cluster.pull:
            return [], set()
        try:
            client = self._clients.get(cluster.name)
            if client is None:
                client = await stack.enter_async_context(connect(cluster, self.kubeconfig))
                self._clients[cluster.name] = client
            seen, _ = await read_stack_status(client, self.stacks, self.claim)
            spaces = sorted({one.namespace for each in seen for one in each.objects if one.namespace})
            return seen, {warn for space in spaces for warn in await _warnings(client, space)}
        except FleetError as problem:
            return problem


async def _warnings(client: Client, namespace: str) -> list[Warn]:
    scope = Scope(EVENTS, namespace, fields="type=Warning")
    try:
        items = [item async for page in pages(client, scope) for item in page["items"]]
    except (AccessError, ListExpiredError):  # whoever may not see them does without
        return []
    return [_warn(client.cluster, item) for item in items]


def _warn(cluster: str, event: dict[str, Any]) -> Warn:
    about = event.get("involvedObject") or event.get("regarding") or {}
    named = f"{about.get('kind', '')} {about.get('namespace', '')}/{about.get('name', '')}"
    text = f"{named}: {event.get('reason', '')}: {event.get('message') or event.get('note') or ''}"
    series = event.get("series") or {}
    count = int(event.get("count") or series.get("count") or 1)
    return Warn(cluster, event["metadata"]["uid"], count, text)
