"""Read one cluster and plan.

Kinds that a cluster does not know yet. The definitions of fleet's own apps are installed where they are missing.

Only where they are missing: to change one that is there affects every stack of the cluster, so that is `fleet crds`'
job, or the operator's. They belong to no stack, and no sync ever deletes one. Kinds of others are refused by name
before anything is sent.

What one cluster has, and what is to be done there: reads only, whatever the outcome.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.apply.inventory import StoredInventory, load, load_all
from fleet.errors import AccessError, ConfigurationError, ConflictError, FleetError
from fleet.kube.client.client import Client, impersonate
from fleet.kube.concurrency import gather
from fleet.kube.discovery import Discovery
from fleet.kube.live import Live, read_around, read_each, read_live, read_whole
from fleet.kube.secret_fields import read_secret_fields
from fleet.objects.desired import Desired, Key
from fleet.objects.redaction import declared_secrecy
from fleet.plan import (
    Inventory,
    Plan,
    RepositoryOwnership,
    Step,
    Verb,
    adoption_keys,
    keys_to_read,
    plan,
    plan_removed_placement,
)
from fleet.plan.decide import CompareOptions
from fleet.plan.ownership import explain_conflicts
from fleet.plan.selection import ALL_STEPS, Selection, select_steps
from fleet.suggestion import closest
from fleet.sync.targets import ClusterTarget, account_of

GROUP = "fleet.dev"
INSTALL = "install its CustomResourceDefinition there first, or put it into the stack as a fleet.Manifest"
Kind = tuple[str, str, str]  # group, version, kind


async def unserved_kinds(client: Client, made: Plan) -> dict[Kind, Step]:
    """What is to be created but neither served there nor defined by the plan itself, each with a step that needs it."""
    discovery = await client.discovery()
    defined = {
        (step.manifest["spec"]["group"], step.manifest["spec"]["names"]["kind"])
        for step in made.steps
        if step.manifest and step.key.kind == "CustomResourceDefinition"
    }
    return {
        (step.key.group, step.entry.version, step.key.kind): step
        for step in reversed(made.having(Verb.CREATE))
        if step.entry
        and (step.key.group, step.key.kind) not in defined
        and discovery.find(step.key.group, step.key.kind, step.entry.version) is None
    }


def unserved_error(cluster: str, kinds: Mapping[Kind, Step], discovery: Discovery) -> FleetError | None:
    """Return the error for the first kind that is not ours to define, with the served one that was probably meant."""
    for (group, version, kind), step in kinds.items():
        if not _is_ours(group, kind):
            return ConfigurationError(
                f"{cluster} does not know the kind {kind} ({f'{group}/' if group else ''}{version})",
                hint=_meant(discovery, group, kind) or INSTALL,
                source=step.source,
            )
    return None


def _meant(discovery: Discovery, group: str, kind: str) -> str | None:
    """Return a hint that names what is served and differs in its version, in the spelling of its kind, or its group."""
    from fleet.apps.registry import kinds as own_kinds  # noqa: PLC0415 - on the way to an error alone

    if versions := discovery.versions.get((group, kind)):
        return f"there it is served as {' and '.join(found.api_version for found in versions.values())}"
    known_kinds = {name for known, name in discovery.versions if known == group}
    if near := closest(kind, known_kinds.union(own_kinds() if group == GROUP else ()), cutoff=0.75):
        return f"did you mean {near!r}?"
    groups = {known: found for (known, name), found in discovery.versions.items() if name == kind}
    if len(groups) == 1 or closest(group, groups):
        found = groups[closest(group, groups) or next(iter(groups))]
        return f"did you mean apiVersion: {next(iter(found.values())).api_version}?"
    return None


async def apply_definitions(client: Client, kinds: Iterable[Kind]) -> None:
    """Install the definitions of our own kinds and wait until they are served."""
    from fleet.apply.steps import Execution  # noqa: PLC0415 - what writes is loaded when there is something to write

    for kind in sorted({kind for _, _, kind in kinds}):
        manifest = _definition(kind)
        step = Step(Verb.CREATE, Key.of(manifest), manifest)
        result = await Execution(client, "fleet").run(step)
        if isinstance(result.error, ConflictError):
            client.forget_discovery()  # somebody else was quicker
        elif isinstance(result.error, AccessError):
            result.error.hint = "somebody who may: fleet crds | kubectl apply --server-side -f -"
            raise result.error
        elif result.error:
            raise result.error


def _is_ours(group: str, kind: str) -> bool:
    from fleet.apps.registry import driver  # noqa: PLC0415 - the app types are loaded only when one is missing

    return group == GROUP and driver(kind) is not None


def _definition(kind: str) -> dict[str, Any]:
    from fleet.apps.registry import driver  # noqa: PLC0415
    from fleet.render.crd import definition  # noqa: PLC0415

    found = driver(kind)
    if found is None:
        raise ValueError(f"{kind} is not one of our kinds")
    return definition(found)


FEW = 8  # stacks whose inventories are asked for one by one; of more, all that there are
FRESH = 10.0  # seconds for which an object that the plan does not touch counts as it was read
UNKNOWN: Live = {}


@dataclass(frozen=True, slots=True)
class StackPlan:
    """One stack in one cluster: its plan, or why there is none."""

    stack: str
    desired: Desired | None  # None: no longer placed here
    plan: Plan | None = None
    live: Live | None = None
    problem: FleetError | None = None
    narrowing: Selection = ALL_STEPS
    account: str = ""  # in whose name its objects are read and written; "": as ourselves
    undefined: Mapping[Kind, Step] = field(default_factory=dict)  # kinds of our own that are not defined there yet
    at: float = -FRESH  # when reading began, by the monotonic clock in seconds; by default too long ago

    def untouched(self) -> Live:
        """Return the live objects that the plan leaves as they are, if they were read a moment ago; else none.

        To change one object of thousands does not need to read the thousands again. What somebody else does to them
        meanwhile is seen by the next sync, as if it had been done right after this one.
        """
        if self.live is None or self.plan is None or self.desired is None or time.monotonic() - self.at > FRESH:
            return UNKNOWN
        if any(one.aliases for one in self.desired.objects):  # which of its names is the one there may change
            return UNKNOWN
        steps = self.plan.having(Verb.UNCHANGED)
        return {step.key: found for step in steps if (found := self.live.get(step.key)) is not None}


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    seen: tuple[StackPlan, ...]
    orphans: tuple[str, ...] = ()  # stacks of this repository, or of nobody, that git does not know (any more)


async def plan_cluster(
    client: Client, target: ClusterTarget, claim: RepositoryOwnership, *, revision: str = "", accounts: str = ""
) -> ClusterPlan:
    """The plans for every stack of the run in this cluster, from one list of inventories and one reading of objects.

    With `accounts`, the pattern of their names, each stack's objects are read in the name of its own.
    """
    cluster, began = target.cluster.name, time.monotonic()
    stored = {one.inventory.stack: one.inventory for one in await _inventories(client, target)}
    if accounts:
        seen = [
            await _seen_by_itself(client, one, stored.get(one.stack), claim, revision=revision, accounts=accounts)
            for one in target.desired
        ]
    else:
        live = await _live(client, target.desired, stored)
        seen = [
            await _seen(client, one, stored.get(one.stack), live, revision=revision, claim=claim)
            for one in target.desired
        ]
    here = {one.stack for one in target.desired}
    ours = {stack: inventory for stack, inventory in sorted(stored.items()) if claim.covers(inventory)}
    seen += [
        StackPlan(stack, None, plan_removed_placement(inventory, claim))
        for stack, inventory in ours.items()
        if stack in target.stacks - here and inventory.cluster == cluster
    ]
    seen = [replace(one, account=account_of(accounts, one.stack)) for one in seen] if accounts else seen
    seen = [replace(_narrowed(one, target.narrowing, stored.values()), at=began) for one in seen]
    seen = [await _with_kinds(client, one) for one in seen]
    applied = await _applied(client, target, stored.values(), claim, seen)
    seen = [replace(one, plan=replace(one.plan, applied=applied)) if one.plan else one for one in seen]
    orphans = sorted(ours.keys() - target.stacks) if target.complete else ()
    return ClusterPlan(tuple(seen), tuple(orphans))


async def _applied(
    client: Client,
    target: ClusterTarget,
    stored: Iterable[Inventory],
    claim: RepositoryOwnership,
    seen: Iterable[StackPlan],
) -> frozenset[str]:
    """The commits that this repository's stacks have there: of all of them, if anything is to be done.

    What nobody owns may be planned for, and is not said to have been applied from here.
    """
    if not _is_about_all(target) and any(one.plan and not one.plan.empty for one in seen):
        stored = [one.inventory for one in await load_all(client)]
    return frozenset(one.revision for one in stored if one.revision and one.repository and claim.covers(one))


def _is_about_all(target: ClusterTarget) -> bool:
    return target.complete or len(target.stacks) > FEW


async def _inventories(client: Client, target: ClusterTarget) -> list[StoredInventory]:
    """Of the stacks of the run at least. One that was never applied has none."""
    if _is_about_all(target):
        return await load_all(client)
    found = await gather(load(client, stack, target.cluster.name) for stack in sorted(target.stacks))
    return [one for one in found if one.chunks]


async def _seen_by_itself(
    client: Client,
    desired: Desired,
    inventory: Inventory | None,
    claim: RepositoryOwnership,
    *,
    revision: str,
    accounts: str,
) -> StackPlan:
    """A stack that is read in the name of an account of its own: what that may not read fails this stack alone."""
    try:
        with impersonate(account_of(accounts, desired.stack)):
            live = await _live(client, [desired], {desired.stack: inventory} if inventory else {})
    except FleetError as problem:
        return StackPlan(desired.stack, desired, problem=problem)
    return await _seen(client, desired, inventory, live, revision=revision, claim=claim)


async def _live(
    client: Client, stacks: Sequence[Desired], stored: Mapping[str, Inventory], untouched: Live = UNKNOWN
) -> Live:
    """Read what the plans look up, but for what is known to be `untouched`."""
    known = [stored[one.stack] for one in stacks if one.stack in stored]
    keys = {key for one in stacks for key in keys_to_read(one, stored.get(one.stack)) if key not in untouched}
    versions = _versions(stacks, known)
    live = await _certain(client, await read_live(client, keys, versions), known, versions)
    live = {**untouched, **live} if untouched else live
    beside = {key for one in stacks for key in adoption_keys(one, live)}
    whole = await read_whole(client, beside) if beside else {}
    return {**live, **whole, **await read_around(client, live)}


def _narrowed(seen: StackPlan, narrowing: Selection, inventories: Iterable[Inventory]) -> StackPlan:
    """With the part of the plan that is meant, and rivals by their names."""
    if seen.plan is None:
        return seen
    return replace(seen, plan=select_steps(explain_conflicts(seen.plan, inventories), narrowing), narrowing=narrowing)


async def _certain(client: Client, live: Live, inventories: Iterable[Inventory], versions: Mapping[Key, str]) -> Live:
    """What is missing though an inventory has it is asked for by itself: a list may come from a cache that is not full.

    An object that is taken for gone would be made anew, or dropped from the inventory and left behind for ever.
    """
    recorded = (entry.key for one in inventories for entry in one.entries if entry.uid)
    missing = [key for key in recorded if key in live and live[key] is None]
    return {**live, **await read_each(client, missing, versions)} if missing else live


async def replan_stack(
    client: Client, desired: Desired, claim: RepositoryOwnership, *, before: StackPlan, revision: str = ""
) -> tuple[StoredInventory, Plan]:
    """Plan one stack anew, under its Lease: what was seen `before` may be old.

    Objects that are not touched are read again only if another sync changed the stack since, or time has passed.
    """
    stored = await load(client, desired.stack, desired.cluster)
    untouched = before.untouched() if _is_same(before.plan, stored.inventory) else UNKNOWN
    with impersonate(before.account):
        live = await _live(client, [desired], {desired.stack: stored.inventory}, untouched)
    return stored, await _planned(client, desired, stored.inventory, live, revision=revision, claim=claim)


def _is_same(plan: Plan | None, inventory: Inventory) -> bool:
    """Tell whether the inventory is to the letter the one that the plan was made from."""
    if plan is None or plan.inventory != inventory:
        return False
    return [entry.seen for entry in plan.inventory.entries] == [entry.seen for entry in inventory.entries]


async def _planned(
    client: Client,
    desired: Desired,
    inventory: Inventory | None,
    live: Live,
    *,
    revision: str,
    claim: RepositoryOwnership,
) -> Plan:
    """A plan that shows no value which is secret by what git or the server says about its kind."""
    declared = declared_secrecy(one.manifest for one in desired.objects if one.key.kind == "CustomResourceDefinition")
    made = plan(desired, inventory, live, revision=revision, ownership=claim, options=CompareOptions(declared))
    served = await read_secret_fields(client, [made])
    if not served.fields:
        return made
    return plan(desired, inventory, live, revision=revision, ownership=claim, options=CompareOptions(declared | served))


async def _seen(
    client: Client,
    desired: Desired,
    inventory: Inventory | None,
    live: Live,
    *,
    revision: str,
    claim: RepositoryOwnership,
) -> StackPlan:
    try:
        made = await _planned(client, desired, inventory, live, revision=revision, claim=claim)
        return StackPlan(desired.stack, desired, made, live)
    except FleetError as problem:
        return StackPlan(desired.stack, desired, problem=problem)


async def _with_kinds(client: Client, seen: StackPlan) -> StackPlan:
    """With the kinds that are missing there: those of our own can be defined, others are a problem."""
    if seen.plan is None:
        return seen
    kinds = await unserved_kinds(client, seen.plan)
    problem = unserved_error(client.cluster, kinds, await client.discovery()) if kinds else None
    return replace(seen, undefined=kinds, problem=seen.problem or problem) if kinds else seen


def _versions(desired: Iterable[Desired], inventories: Iterable[Inventory]) -> dict[Key, str]:
    """In which API version to read each object: the one that it is written in, else the one it was written in."""
    versions = {entry.key: entry.version for inventory in inventories for entry in inventory.entries}
    for one in desired:
        for wanted in one.objects:
            version = wanted.manifest["apiVersion"].rpartition("/")[2]
            versions[wanted.key] = version
            for alias in wanted.aliases:
                versions[alias] = version
    return versions
