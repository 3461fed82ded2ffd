"""Status of the stacks in the clusters, once or continuously, from inventories and live objects. Reads only.

Nothing is evaluated. A watch reads again and again and reports what differs from the last observation. Changes are
found by comparing two observations, so none is lost between them that still matters. Warnings of the clusters about the
same namespaces are reported beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.apply.inventory import load_all
from fleet.apps.registry import is_app
from fleet.errors import AccessError, FleetError
from fleet.evaluate import ClusterData
from fleet.kube.cause import explain_health
from fleet.kube.client.client import Client
from fleet.kube.health import State
from fleet.kube.live import read_around, read_live
from fleet.kube.objects import ListExpiredError, ObjectScope, pages
from fleet.objects.desired import Key, StackCluster
from fleet.objects.resource import Resource
from fleet.plan import Inventory, RepositoryOwnership
from fleet.sync.health import object_health, worst_state
from fleet.sync.options import connect
from fleet.sync.redaction import redact_health, secrets_of_plan
from fleet.sync.result import ObjectHealth


@dataclass(frozen=True, slots=True)
class StackStatus:
    """Status of one stack in one cluster."""

    stack: str
    cluster: str
    revision: str
    health: str
    objects: tuple[ObjectHealth, ...]
    suspended: str = ""  # by whom and why it is suspended; "" if it is not


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """Status of the stacks in all clusters."""

    stacks: tuple[StackStatus, ...]
    failed: dict[str, FleetError]  # by cluster
    other_stacks: dict[str, tuple[str, ...]]  # by cluster: stacks of other repositories, which are not observed


async def observe_fleet(
    clusters: Sequence[ClusterData], stacks: Sequence[str], kubeconfig: Path | None, claim: RepositoryOwnership
) -> FleetStatus:
    """Return the status of all stacks (or the named ones) in these clusters; one that cannot be read is in `failed`."""
    failed: dict[str, FleetError] = {}
    other_stacks: dict[str, tuple[str, ...]] = {}

    async def observe_cluster(cluster: ClusterData) -> list[StackStatus]:
        if cluster.pull:
            return []
        try:
            async with connect(cluster, kubeconfig) as client:
                statuses, other_stacks[cluster.name] = await read_stack_status(client, stacks, claim)
                return statuses
        except FleetError as problem:
            failed[cluster.name] = problem
            return []

    statuses = await asyncio.gather(*(observe_cluster(cluster) for cluster in clusters))
    ordered = sorted(
        (status for part in statuses for status in part), key=lambda status: (status.stack, status.cluster)
    )
    return FleetStatus(tuple(ordered), failed, {cluster: names for cluster, names in other_stacks.items() if names})


async def read_stack_status(
    client: Client, stacks: Sequence[str], claim: RepositoryOwnership
) -> tuple[list[StackStatus], tuple[str, ...]]:
    """Return the status of the stacks in one cluster, and the names of stacks of other repositories."""
    inventories = [stored.inventory for stored in await load_all(client)]
    inventories = [inventory for inventory in inventories if not stacks or inventory.stack in stacks]
    own_inventories = [inventory for inventory in inventories if claim.covers(inventory)]
    other_stacks = tuple(inventory.stack for inventory in inventories if not claim.covers(inventory))
    return await _judge_stacks(client, own_inventories), other_stacks


async def _judge_stacks(client: Client, inventories: Sequence[Inventory]) -> list[StackStatus]:
    """Return the status of the stacks of these inventories, with secret values removed."""
    versions = {entry.key: entry.version for inventory in inventories for entry in inventory.entries}
    live = await read_live(client, versions, versions)
    live.update(await read_around(client, live))
    hidden = secrets_of_plan((), [live])
    causes = await explain_health(client, live, live)
    statuses = []
    for inventory in inventories:
        keys = [entry.key for entry in inventory.entries]
        healths = (object_health(key, live[key], live, is_app=_is_app(key), cause=causes.get(key, "")) for key in keys)
        objects = redact_health(
            (*healths, *(_missing_health(key) for key in inventory.missing if key not in versions)), hidden
        )
        suspension = str(inventory.suspension or "")
        statuses.append(
            StackStatus(inventory.stack, client.cluster, inventory.revision, worst_state(objects), objects, suspension)
        )
    return statuses


def _missing_health(key: Key) -> ObjectHealth:
    """Return the health of an object that the last sync could not create.

    It is missing, though no inventory entry says that it should exist.
    """
    message = "the last sync was to create it, and could not"
    return ObjectHealth(key.kind, key.namespace, key.name, State.MISSING.value, message, is_app=_is_app(key))


def _is_app(key: Key) -> bool:
    return is_app(key.group, key.kind)


EVENTS = Resource("", "v1", "Event", "events", True)


@dataclass(frozen=True, slots=True)
class Warn:
    """Warning event of a cluster about an object."""

    cluster: str
    uid: str
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """Status of the fleet at one moment. A cluster that cannot be read keeps its last status."""

    stacks: dict[StackCluster, StackStatus] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    warnings: frozenset[Warn] = frozenset()

    @property
    def is_well(self) -> bool:
        return not self.failed and all(status.health == "Healthy" for status in self.stacks.values())


def describe_changes(before: FleetSnapshot | None, now: FleetSnapshot) -> list[str]:
    """Return a line for each difference; for the first observation, a line for each stack and failed cluster. Pure."""
    lines = [
        f"{cluster}: cannot be asked: {why}" for cluster, why in now.failed.items() if _is_new_failure(before, cluster)
    ]
    for pair, status in sorted(now.stacks.items()):
        lines += _describe_stack_changes(before.stacks.get(pair) if before else None, status)
    if before is None:
        return lines
    lines += [f"{cluster}: answers again" for cluster in before.failed if cluster not in now.failed]
    lines += [f"{stack} on {cluster}: is gone" for stack, cluster in sorted(before.stacks.keys() - now.stacks.keys())]
    return [*lines, *sorted(f"{warning.cluster}: {warning.text}" for warning in now.warnings - before.warnings)]


def _is_new_failure(before: FleetSnapshot | None, cluster: str) -> bool:
    return before is None or cluster not in before.failed


def _describe_stack_changes(before: StackStatus | None, now: StackStatus) -> list[str]:
    """Return a line for each difference in one stack."""
    name = f"{now.stack} on {now.cluster}"
    if before is None:
        return [f"{name}: {now.health} at {now.revision[:8] or 'no revision'}{_health_reason(now)}"]
    lines = []
    if before.revision != now.revision:
        lines.append(f"{name}: {before.revision[:8]} → {now.revision[:8]}")
    if before.health != now.health:
        lines.append(f"{name}: {before.health} → {now.health}{_health_reason(now)}")
    if before.suspended != now.suspended:
        lines.append(f"{name}: {now.suspended or 'resumed'}")
    former_objects = {health.title: health for health in before.objects}
    for health in now.objects:
        former = former_objects.get(health.title)
        if former is None or (former.state, former.members, former.version) != (
            health.state,
            health.members,
            health.version,
        ):
            progress = " ".join(filter(None, (health.version, health.members, health.state)))
            lines.append(f"{name}: {health.title} {progress}" + (f": {health.message}" if health.message else ""))
    lines += [f"{name}: {title} is gone" for title in former_objects.keys() - {health.title for health in now.objects}]
    return lines


def _health_reason(status: StackStatus) -> str:
    """Return the message of the first object that has the stack's bad health, in brackets; "" if there is none."""
    cause = next((health for health in status.objects if health.state == status.health != "Healthy"), None)
    return f" ({cause.title}: {cause.message})" if cause and cause.message else ""


@dataclass(slots=True)
class FleetWatcher:
    """Watcher of these stacks (or all) in these clusters; connections are kept between observations."""

    clusters: Sequence[ClusterData]
    stacks: Sequence[str]
    kubeconfig: Path | None
    claim: RepositoryOwnership
    _clients: dict[str, Client] = field(default_factory=dict)

    async def sights(self, *, every: float) -> AsyncIterator[FleetSnapshot]:
        """Yield one observation after the other, for ever, with `every` seconds between them."""
        last = FleetSnapshot()
        async with AsyncExitStack() as stack:
            while True:
                last = await self._sight(stack, last)
                yield last
                await asyncio.sleep(every)

    async def _sight(self, stack: AsyncExitStack, last: FleetSnapshot) -> FleetSnapshot:
        """Observe all clusters once; one that cannot be read keeps what `last` has of it."""
        stacks: dict[StackCluster, StackStatus] = {}
        failed: dict[str, str] = {}
        warnings: set[Warn] = set()
        observations = await asyncio.gather(*(self._look(cluster, stack) for cluster in self.clusters))
        for cluster, observation in zip(self.clusters, observations, strict=True):
            if isinstance(observation, FleetError):
                failed[cluster.name] = observation.message
                stacks |= {pair: status for pair, status in last.stacks.items() if pair[1] == cluster.name}
                warnings |= {warning for warning in last.warnings if warning.cluster == cluster.name}
            else:
                stacks |= {(status.stack, status.cluster): status for status in observation[0]}
                warnings |= observation[1]
        return FleetSnapshot(stacks, failed, frozenset(warnings))

    async def _look(
        self, cluster: ClusterData, stack: AsyncExitStack
    ) -> tuple[list[StackStatus], set[Warn]] | FleetError:
        """Return the statuses and warnings of one cluster, or the error if it cannot be read."""
        if cluster.pull:
            return [], set()
        try:
            client = self._clients.get(cluster.name)
            if client is None:
                client = await stack.enter_async_context(connect(cluster, self.kubeconfig))
                self._clients[cluster.name] = client
            statuses, _ = await read_stack_status(client, self.stacks, self.claim)
            namespaces = sorted(
                {health.namespace for status in statuses for health in status.objects if health.namespace}
            )
            return statuses, {
                warning for namespace in namespaces for warning in await _read_warnings(client, namespace)
            }
        except FleetError as problem:
            return problem


async def _read_warnings(client: Client, namespace: str) -> list[Warn]:
    """Return the warnings about objects of the namespace; none if we may not read them."""
    scope = ObjectScope(EVENTS, namespace, fields="type=Warning")
    try:
        items = [item async for page in pages(client, scope) for item in page["items"]]
    except (AccessError, ListExpiredError):  # without the right to read them, none are shown
        return []
    return [_make_warning(client.cluster, item) for item in items]


def _make_warning(cluster: str, event: dict[str, Any]) -> Warn:
    subject = event.get("involvedObject") or event.get("regarding") or {}
    title = f"{subject.get('kind', '')} {subject.get('namespace', '')}/{subject.get('name', '')}"
    text = f"{title}: {event.get('reason', '')}: {event.get('message') or event.get('note') or ''}"
    series = event.get("series") or {}
    count = int(event.get("count") or series.get("count") or 1)
    return Warn(cluster, event["metadata"]["uid"], count, text)
