"""How the stacks in the clusters are now: from inventories and live objects, without evaluating anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.apps.registry import packages
from fleet.errors import FleetError
from fleet.evaluate import ClusterData
from fleet.kube.cause import explained
from fleet.kube.client import Client
from fleet.kube.health import State
from fleet.kube.inventory import load_all
from fleet.kube.live import read_around, read_live
from fleet.model.app import GROUP
from fleet.model.desired import Key
from fleet.plan import Claim, Inventory
from fleet.sync.discreet import hidden_in, quiet
from fleet.sync.outcome import ObjectHealth
from fleet.sync.run import connect
from fleet.sync.waiting import judged, worst


@dataclass(frozen=True, slots=True)
class Observed:
    """One stack in one cluster."""

    stack: str
    cluster: str
    revision: str
    health: str
    objects: tuple[ObjectHealth, ...]
    suspended: str = ""  # that it is left as it is, by whom and why


@dataclass(frozen=True, slots=True)
class Observation:
    stacks: tuple[Observed, ...]
    failed: dict[str, FleetError]  # by cluster
    others: dict[str, tuple[str, ...]]  # by cluster: stacks of other repositories, which are not looked at


async def observe(
    clusters: Sequence[ClusterData], stacks: Sequence[str], kubeconfig: Path | None, claim: Claim
) -> Observation:
    """All stacks (or those named) in these clusters; a cluster that cannot be asked is in `failed`."""
    failed: dict[str, FleetError] = {}
    others: dict[str, tuple[str, ...]] = {}

    async def one(cluster: ClusterData) -> list[Observed]:
        if cluster.pull:
            return []
        try:
            async with connect(cluster, kubeconfig) as client:
                seen, others[cluster.name] = await observed(client, stacks, claim)
                return seen
        except FleetError as problem:
            failed[cluster.name] = problem
            return []

    seen = await asyncio.gather(*(one(cluster) for cluster in clusters))
    ordered = sorted((each for part in seen for each in part), key=lambda o: (o.stack, o.cluster))
    return Observation(tuple(ordered), failed, {cluster: names for cluster, names in others.items() if names})


async def observed(client: Client, stacks: Sequence[str], claim: Claim) -> tuple[list[Observed], tuple[str, ...]]:
    """How stacks are in one cluster, and the names of those that are another repository's."""
    found = [stored.inventory for stored in await load_all(client)]
    found = [each for each in found if not stacks or each.stack in stacks]
    others = tuple(each.stack for each in found if not claim.covers(each))
    return await _observed(client, [each for each in found if claim.covers(each)]), others


async def _observed(client: Client, inventories: Sequence[Inventory]) -> list[Observed]:
    versions = {entry.key: entry.version for inventory in inventories for entry in inventory.entries}
    live = await read_live(client, versions, versions)
    live.update(await read_around(client, live))
    hidden = hidden_in((), [live])
    causes = await explained(client, live, live)
    observed = []
    for inventory in inventories:
        keys = [entry.key for entry in inventory.entries]
        found = (judged(key, live[key], live, is_app=_is_app(key), cause=causes.get(key, "")) for key in keys)
        objects = quiet((*found, *(_not_made(key) for key in inventory.missing if key not in versions)), hidden)
        word = str(inventory.suspension or "")
        observed.append(Observed(inventory.stack, client.cluster, inventory.revision, worst(objects), objects, word))
    return observed


def _not_made(key: Key) -> ObjectHealth:
    """What the last sync could not create is missing, though no inventory entry says that it should be there."""
    message = "the last sync was to create it, and could not"
    return ObjectHealth(key.kind, key.namespace, key.name, State.MISSING.value, message, is_app=_is_app(key))


def _is_app(key: Key) -> bool:
    return key.group == GROUP and key.kind.lower() in packages()
