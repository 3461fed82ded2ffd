"""Reading of one cluster: the inventories of its stacks and their live objects. Reads only.

A run reads a cluster as soon as it knows that there is one (`read_ahead`), while the stacks are still evaluated. What
the stacks want is not known by then, so the objects that the inventories list are read: nearly always, these are the
ones. Every other object that the evaluation turns out to want is read before the plan is made, and so is one that a
list lacked, or that git wants in another API version. What was read ahead is as good as what is read now: before
anything is written, the objects that the plan changes are read again under the Lease.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.apply.inventory import StoredInventory, load, load_all
from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.kube.live import Live, read_around, read_each, read_live, read_whole
from fleet.objects.desired import Desired, Key
from fleet.plan import Inventory, RepositoryOwnership, adoption_keys, keys_to_read
from fleet.sync.targets import ClusterTarget

FEW = 8  # up to so many stacks, inventories are read one by one; for more, all at once
FRESH = 10.0  # seconds for which an object that the plan does not change is not read again
UNKNOWN: Live = {}


@dataclass(frozen=True, slots=True)
class EarlyRead:
    """Inventories and live objects of a cluster, read before it was known what the stacks want."""

    client: Client
    inventories: tuple[StoredInventory, ...]
    live: Live  # only objects that exist
    versions: Mapping[Key, str]  # API version in which each object was read
    at: float  # when reading began, in seconds of the monotonic clock

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.at <= FRESH

    def usable(self, stacks: Iterable[Desired]) -> Live:
        """Return the live objects, without those that git wants to see in another API version."""
        outdated = {
            key
            for stack in stacks
            for obj in stack.objects
            for key in (obj.key, *obj.aliases)
            if self.versions.get(key, obj.version) != obj.version
        }
        return {key: manifest for key, manifest in self.live.items() if key not in outdated} if outdated else self.live


async def read_ahead(client: Client, target: ClusterTarget, claim: RepositoryOwnership) -> EarlyRead:
    """Read the inventories of the target's stacks, and the objects that those of this repository list."""
    began = time.monotonic()
    inventories = await read_inventories(client, target)
    entries = [
        entry
        for stored in inventories
        if claim.covers(stored.inventory) and (target.complete or stored.inventory.stack in target.stacks)
        for entry in stored.inventory.entries
    ]
    versions = {entry.key: entry.version for entry in entries}
    live = await read_live(client, versions, versions)
    existing: Live = {key: manifest for key, manifest in live.items() if manifest is not None}
    return EarlyRead(client, tuple(inventories), existing, versions, began)


def reads_all_stacks(target: ClusterTarget) -> bool:
    """Return whether the run reads the inventories of all stacks of the cluster."""
    return target.complete or len(target.stacks) > FEW


async def read_inventories(client: Client, target: ClusterTarget) -> list[StoredInventory]:
    """Return the inventories of the stacks of the run, possibly with others. A stack never applied has none."""
    if reads_all_stacks(target):
        return await load_all(client)
    inventories = await gather(load(client, stack, target.cluster.name) for stack in sorted(target.stacks))
    return [inventory for inventory in inventories if inventory.chunks]


async def read_objects(
    client: Client, stacks: Sequence[Desired], stored: Mapping[str, Inventory], already_read: Live = UNKNOWN
) -> Live:
    """Read the objects that the plans look up, except those that are `already_read`."""
    inventories = [stored[stack.stack] for stack in stacks if stack.stack in stored]
    keys = {key for stack in stacks for key in keys_to_read(stack, stored.get(stack.stack)) if key not in already_read}
    versions = _versions_to_read(stacks, inventories) if keys else {}
    live = await _confirm_missing(client, await read_live(client, keys, versions), inventories, versions)
    live = {**already_read, **live} if already_read else live
    adoption = {key for stack in stacks for key in adoption_keys(stack, live)}
    whole_objects = await read_whole(client, adoption) if adoption else {}
    return {**live, **whole_objects, **await read_around(client, live)}


async def _confirm_missing(
    client: Client, live: Live, inventories: Iterable[Inventory], versions: Mapping[Key, str]
) -> Live:
    """Read each object again that an inventory has and the list did not: a list may come from an incomplete cache.

    An object that is mistaken for absent would be created anew, or dropped from the inventory and left behind for ever.
    """
    recorded = (entry.key for inventory in inventories for entry in inventory.entries if entry.uid)
    missing = [key for key in recorded if key in live and live[key] is None]
    return {**live, **await read_each(client, missing, versions)} if missing else live


def _versions_to_read(desired: Iterable[Desired], inventories: Iterable[Inventory]) -> dict[Key, str]:
    """Return the API version in which to read each object: that of git, or else that of the inventory."""
    versions = {entry.key: entry.version for inventory in inventories for entry in inventory.entries}
    for stack in desired:
        for obj in stack.objects:
            versions[obj.key] = obj.version
            for alias in obj.aliases:
                versions[alias] = obj.version
    return versions
