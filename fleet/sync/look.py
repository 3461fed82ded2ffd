"""What one cluster has, and what is to be done there: reads only, whatever the outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import ConfigurationError, FleetError
from fleet.kube.client import Client
from fleet.kube.inventory import Stored, load, load_all
from fleet.kube.live import Live, read_live
from fleet.model.desired import Desired, Key
from fleet.plan import Inventory, Plan, Verb, keys_to_read, leave, plan
from fleet.sync.choice import Target


@dataclass(frozen=True, slots=True)
class Seen:
    """One stack in one cluster: its plan, or why there is none."""

    stack: str
    desired: Desired | None  # None: no longer placed here
    plan: Plan | None = None
    live: Live | None = None
    problem: FleetError | None = None


@dataclass(frozen=True, slots=True)
class Look:
    seen: tuple[Seen, ...]
    orphans: tuple[str, ...] = ()  # stacks with an inventory here that git does not know (any more)


async def look(client: Client, target: Target, *, revision: str = "") -> Look:
    """The plans for every stack of the run in this cluster, from one list of inventories and one reading of objects."""
    cluster = target.cluster.name
    stored = {one.inventory.stack: one.inventory for one in await load_all(client)}
    keys = {key for one in target.desired for key in keys_to_read(one, stored.get(one.stack))}
    live = await read_live(client, keys, _versions(target.desired, stored.values()))
    seen = [_seen(one, stored.get(one.stack), live, revision) for one in target.desired]
    here = {one.stack for one in target.desired}
    seen += [
        Seen(stack, None, leave(inventory))
        for stack, inventory in sorted(stored.items())
        if stack in target.stacks - here and inventory.cluster == cluster
    ]
    orphans = sorted(stored.keys() - target.stacks) if target.complete else ()
    return Look(tuple(seen), tuple(orphans))


async def look_again(client: Client, desired: Desired, *, revision: str = "") -> tuple[Stored, Plan, Live]:
    """One stack anew, under its Lease: what was seen before may be old."""
    stored = await load(client, desired.stack, desired.cluster)
    keys = keys_to_read(desired, stored.inventory)
    live = await read_live(client, keys, _versions([desired], [stored.inventory]))
    return stored, plan(desired, stored.inventory, live, revision=revision), live


def _seen(desired: Desired, inventory: Inventory | None, live: Live, revision: str) -> Seen:
    try:
        return Seen(desired.stack, desired, plan(desired, inventory, live, revision=revision), live)
    except FleetError as problem:
        return Seen(desired.stack, desired, problem=problem)


async def unserved(client: Client, made: Plan) -> set[tuple[str, str, str]]:
    """Group, version and kind of what is to be created but is neither served there nor defined by the plan itself."""
    discovery = await client.discovery()
    defined = {
        (step.manifest["spec"]["group"], step.manifest["spec"]["names"]["kind"])
        for step in made.steps
        if step.manifest and step.key.kind == "CustomResourceDefinition"
    }
    return {
        (step.key.group, step.entry.version, step.key.kind)
        for step in made.having(Verb.CREATE)
        if step.entry
        and (step.key.group, step.key.kind) not in defined
        and discovery.find(step.key.group, step.key.kind, step.entry.version) is None
    }


def refuse_unserved(cluster: str, made: Plan, kinds: set[tuple[str, str, str]]) -> ConfigurationError:
    group, version, kind = sorted(kinds)[0]
    step = next(step for step in made.steps if (step.key.group, step.key.kind) == (group, kind))
    return ConfigurationError(
        f"{cluster} does not know the kind {kind} of {group or 'the core group'}/{version}",
        hint="install its CustomResourceDefinition first, or put that into the stack as a fleet.Manifest",
        source=step.source,
    )


def _versions(desired: Iterable[Desired], inventories: Iterable[Inventory]) -> dict[Key, str]:
    """In which API version to read each object: the one that it is written in, else the one it was written in."""
    versions = {entry.key: entry.version for inventory in inventories for entry in inventory.entries}
    for one in desired:
        for wanted in one.objects:
            version = wanted.manifest["apiVersion"].rpartition("/")[2]
            versions[wanted.key] = version
            versions.update(dict.fromkeys(wanted.aliases, version))
    return versions
