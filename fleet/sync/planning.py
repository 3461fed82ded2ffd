"""Planning of one cluster: read its inventories and live objects and make a plan for each stack.

Planning sends reads only, whatever the outcome.

Here are also the kinds that a cluster does not know yet. The definitions of fleet's own apps are installed where they
are missing, and only there: a change of an existing definition affects every stack of the cluster, so that is left to
`fleet crds` or the operator. Definitions belong to no stack, and no sync ever deletes one. An unknown kind that is not
fleet's own is refused by name before anything is sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.apply.inventory import StoredInventory, load, load_all
from fleet.apps.registry import is_app
from fleet.errors import AccessError, ConfigurationError, ConflictError, FleetError
from fleet.kube.client.client import Client, impersonate
from fleet.kube.discovery import Discovery
from fleet.kube.live import Live
from fleet.kube.openapi import read_secret_fields
from fleet.objects.desired import Desired, Key
from fleet.objects.redaction import declared_secrecy
from fleet.plan import (
    Inventory,
    Plan,
    RepositoryOwnership,
    Step,
    Verb,
    plan,
    plan_removed_placement,
)
from fleet.plan.decide import CompareOptions
from fleet.plan.ownership import explain_conflicts
from fleet.plan.selection import ALL_STEPS, Selection, select_steps
from fleet.suggestion import closest
from fleet.sync.reading import FRESH, UNKNOWN, EarlyRead, read_inventories, read_objects, reads_all_stacks
from fleet.sync.targets import ClusterTarget, account_of

GROUP = "fleet.dev"
INSTALL = "install its CustomResourceDefinition there first, or put it into the stack as a fleet.Manifest"
Kind = tuple[str, str, str]  # group, version, kind


async def unserved_kinds(client: Client, plan: Plan) -> dict[Kind, Step]:
    """Return the kinds to be created that neither the cluster serves nor the plan defines, each with a step."""
    discovery = await client.discovery()
    defined = {
        (step.manifest["spec"]["group"], step.manifest["spec"]["names"]["kind"])
        for step in plan.steps
        if step.manifest and step.key.kind == "CustomResourceDefinition"
    }
    return {
        (step.key.group, step.entry.version, step.key.kind): step
        for step in reversed(plan.having(Verb.CREATE))
        if step.entry
        and (step.key.group, step.key.kind) not in defined
        and discovery.find(step.key.group, step.key.kind, step.entry.version) is None
    }


def unserved_error(cluster: str, kinds: Mapping[Kind, Step], discovery: Discovery) -> FleetError | None:
    """Return the error for the first kind that is not ours to define, with the served one that was probably meant."""
    for (group, version, kind), step in kinds.items():
        if not _is_own_kind(group, kind):
            return ConfigurationError(
                f"{cluster} does not know the kind {kind} ({f'{group}/' if group else ''}{version})",
                hint=_suggest_kind(discovery, group, kind) or INSTALL,
                source=step.source,
            )
    return None


def _suggest_kind(discovery: Discovery, group: str, kind: str) -> str | None:
    """Return a hint that names what is served and differs in its version, in the spelling of its kind, or its group."""
    from fleet.apps.registry import kinds as own_kinds  # noqa: PLC0415 - needed only for an error

    if versions := discovery.versions.get((group, kind)):
        return f"there it is served as {' and '.join(served.api_version for served in versions.values())}"
    known_kinds = {name for served_group, name in discovery.versions if served_group == group}
    if near := closest(kind, known_kinds.union(own_kinds() if group == GROUP else ()), cutoff=0.75):
        return f"did you mean {near!r}?"
    groups = {
        served_group: served
        for (served_group, served_kind), served in discovery.versions.items()
        if served_kind == kind
    }
    if len(groups) == 1 or closest(group, groups):
        served = groups[closest(group, groups) or next(iter(groups))]
        return f"did you mean apiVersion: {next(iter(served.values())).api_version}?"
    return None


async def apply_definitions(client: Client, kinds: Iterable[Kind]) -> None:
    """Install the definitions of our own kinds and wait until they are served; raise the error of one that fails."""
    from fleet.apply.steps import Execution  # noqa: PLC0415 - loaded only when there is something to write

    for group, kind in sorted({(group, kind) for group, _, kind in kinds}):
        manifest = _make_definition(group, kind)
        step = Step(Verb.CREATE, Key.of(manifest), manifest)
        result = await Execution(client, "fleet").run(step)
        if isinstance(result.error, ConflictError):
            client.forget_discovery()  # another sync or user was quicker
        elif isinstance(result.error, AccessError):
            result.error.hint = "somebody who may: fleet crds | kubectl apply --server-side -f -"
            raise result.error
        elif result.error:
            raise result.error


def _is_own_kind(group: str, kind: str) -> bool:
    """Return whether the kind is one of fleet's own apps."""
    from fleet.apps.registry import driver  # noqa: PLC0415 - engines are loaded only when a kind is missing

    return driver(kind, group) is not None


def _make_definition(group: str, kind: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one of our kinds."""
    from fleet.apps.registry import driver  # noqa: PLC0415
    from fleet.render.crd import definition  # noqa: PLC0415

    own_driver = driver(kind, group)
    if own_driver is None:
        raise ValueError(f"{kind} is not one of our kinds")
    return definition(own_driver)


@dataclass(frozen=True, slots=True)
class StackPlan:
    """One stack in one cluster: its plan, or why there is none."""

    stack: str
    desired: Desired | None  # None: no longer placed here
    plan: Plan | None = None
    live: Live | None = None
    problem: FleetError | None = None
    narrowing: Selection = ALL_STEPS
    account: str = ""  # service account that reads and writes its objects; "": our own
    undefined: Mapping[Kind, Step] = field(default_factory=dict)  # our own kinds that the cluster does not define yet
    at: float = -FRESH  # when reading began, in seconds of the monotonic clock; by default too long ago

    def unchanged_objects(self) -> Live:
        """Return the live objects that the plan leaves as they are, if they were read a moment ago; else none.

        A change of one object among thousands does not have to read the thousands again. What another field manager
        does to them meanwhile is seen by the next sync, as if it had happened right after this one.
        """
        if self.live is None or self.plan is None or self.desired is None or time.monotonic() - self.at > FRESH:
            return UNKNOWN
        if any(obj.aliases for obj in self.desired.objects):  # the name under which such an object is live may change
            return UNKNOWN
        steps = self.plan.having(Verb.UNCHANGED)
        return {step.key: manifest for step in steps if (manifest := self.live.get(step.key)) is not None}


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Plans of all stacks of a run in one cluster."""

    seen: tuple[StackPlan, ...]
    orphans: tuple[str, ...] = ()  # stacks of this repository or without an owner that git does not have (any more)
    unknown_types: tuple[str, ...] = ()  # kinds of apps to be written that the operator there does not know


async def plan_cluster(
    client: Client,
    target: ClusterTarget,
    claim: RepositoryOwnership,
    *,
    revision: str = "",
    accounts: str = "",
    early: EarlyRead | None = None,
) -> ClusterPlan:
    """Plan every stack of the run in this cluster, from one list of inventories and one reading of objects.

    With `accounts`, the pattern of their names, each stack's objects are read as the stack's own service account. What
    was read `early` is not read again.
    """
    cluster, began = target.cluster.name, early.at if early else time.monotonic()
    inventories = early.inventories if early else await read_inventories(client, target)
    stored = {entry.inventory.stack: entry.inventory for entry in inventories}
    if accounts:
        plans = [
            await _plan_as_account(
                client, desired, stored.get(desired.stack), claim, revision=revision, accounts=accounts
            )
            for desired in target.desired
        ]
    else:
        live = await read_objects(client, target.desired, stored, early.usable(target.desired) if early else UNKNOWN)
        plans = [
            await _plan_stack(client, desired, stored.get(desired.stack), live, revision=revision, claim=claim)
            for desired in target.desired
        ]
    placed = {desired.stack for desired in target.desired}
    ours = {stack: inventory for stack, inventory in sorted(stored.items()) if claim.covers(inventory)}
    plans += [
        StackPlan(stack, None, plan_removed_placement(inventory, claim))
        for stack, inventory in ours.items()
        if stack in target.stacks - placed and inventory.cluster == cluster
    ]
    plans = (
        [replace(stack_plan, account=account_of(accounts, stack_plan.stack)) for stack_plan in plans]
        if accounts
        else plans
    )
    plans = [replace(_select_steps(stack_plan, target.narrowing, stored.values()), at=began) for stack_plan in plans]
    plans = [await _check_kinds(client, stack_plan) for stack_plan in plans]
    revisions = await _applied_revisions(client, target, stored.values(), claim, plans)
    plans = [
        replace(stack_plan, plan=replace(stack_plan.plan, applied=revisions)) if stack_plan.plan else stack_plan
        for stack_plan in plans
    ]
    orphans = sorted(ours.keys() - target.stacks) if target.complete else ()
    return ClusterPlan(tuple(plans), tuple(orphans), await _find_unknown_types(client, plans))


async def _find_unknown_types(client: Client, plans: Iterable[StackPlan]) -> tuple[str, ...]:
    """Return the kinds of apps that the plans write and that the operator of the cluster does not know.

    The operator is asked only where apps are written. If it does not answer, every kind counts as known: this is for
    people, and a plan does not wait for it.
    """
    keys = (step.key for seen in plans if seen.plan for step in seen.plan.having(Verb.CREATE, Verb.UPDATE))
    kinds = {f"{key.kind}.{key.group}" for key in keys if is_app(key.group, key.kind)}
    if not kinds:
        return ()
    from fleet.kube.apps import read_known_types  # noqa: PLC0415 - brings pydantic, which is there where apps are

    types = await read_known_types(client)
    return tuple(sorted(kinds - types.keys())) if types is not None else ()


async def _applied_revisions(
    client: Client,
    target: ClusterTarget,
    stored: Iterable[Inventory],
    claim: RepositoryOwnership,
    seen: Iterable[StackPlan],
) -> frozenset[str]:
    """Return the commits that this repository's stacks have in the cluster: of all stacks, if anything is to be done.

    A stack without an owner may be planned for, but does not count as applied from this repository.
    """
    if not reads_all_stacks(target) and any(stack.plan and not stack.plan.empty for stack in seen):
        stored = [entry.inventory for entry in await load_all(client)]
    return frozenset(
        inventory.revision
        for inventory in stored
        if inventory.revision and inventory.repository and claim.covers(inventory)
    )


async def _plan_as_account(
    client: Client,
    desired: Desired,
    inventory: Inventory | None,
    claim: RepositoryOwnership,
    *,
    revision: str,
    accounts: str,
) -> StackPlan:
    """Plan a stack that is read as its own service account: what that may not read fails this stack alone."""
    try:
        with impersonate(account_of(accounts, desired.stack)):
            live = await read_objects(client, [desired], {desired.stack: inventory} if inventory else {})
    except FleetError as problem:
        return StackPlan(desired.stack, desired, problem=problem)
    return await _plan_stack(client, desired, inventory, live, revision=revision, claim=claim)


def _select_steps(seen: StackPlan, narrowing: Selection, inventories: Iterable[Inventory]) -> StackPlan:
    """Return the selected part of the plan, with the names of other stacks that own conflicting objects."""
    if seen.plan is None:
        return seen
    return replace(seen, plan=select_steps(explain_conflicts(seen.plan, inventories), narrowing), narrowing=narrowing)


async def replan_stack(
    client: Client, desired: Desired, claim: RepositoryOwnership, *, before: StackPlan, revision: str = ""
) -> tuple[StoredInventory, Plan]:
    """Plan one stack again under its Lease, because the plan `before` may be old; return its inventory and plan.

    Objects that the plan does not change are read again only if another sync changed the stack since, or time has
    passed.
    """
    stored = await load(client, desired.stack, desired.cluster)
    unchanged_objects = before.unchanged_objects() if _is_same_inventory(before.plan, stored.inventory) else UNKNOWN
    with impersonate(before.account):
        live = await read_objects(client, [desired], {desired.stack: stored.inventory}, unchanged_objects)
    return stored, await _make_plan(client, desired, stored.inventory, live, revision=revision, claim=claim)


def _is_same_inventory(plan: Plan | None, inventory: Inventory) -> bool:
    """Return whether the inventory is exactly the one that the plan was made from."""
    if plan is None or plan.inventory != inventory:
        return False
    return [entry.seen for entry in plan.inventory.entries] == [entry.seen for entry in inventory.entries]


async def _make_plan(
    client: Client,
    desired: Desired,
    inventory: Inventory | None,
    live: Live,
    *,
    revision: str,
    claim: RepositoryOwnership,
) -> Plan:
    """Return the plan; it shows no value that is secret by what git or the API server says about its kind."""
    declared_fields = declared_secrecy(
        obj.manifest for obj in desired.objects if obj.key.kind == "CustomResourceDefinition"
    )
    first_plan = plan(
        desired, inventory, live, revision=revision, ownership=claim, options=CompareOptions(declared_fields)
    )
    served_secrecy = await read_secret_fields(client, [first_plan])
    if not served_secrecy.fields:
        return first_plan
    return plan(
        desired,
        inventory,
        live,
        revision=revision,
        ownership=claim,
        options=CompareOptions(declared_fields | served_secrecy),
    )


async def _plan_stack(
    client: Client,
    desired: Desired,
    inventory: Inventory | None,
    live: Live,
    *,
    revision: str,
    claim: RepositoryOwnership,
) -> StackPlan:
    """Plan one stack from what was read; an error becomes its problem."""
    try:
        new_plan = await _make_plan(client, desired, inventory, live, revision=revision, claim=claim)
        return StackPlan(desired.stack, desired, new_plan, live)
    except FleetError as problem:
        return StackPlan(desired.stack, desired, problem=problem)


async def _check_kinds(client: Client, seen: StackPlan) -> StackPlan:
    """Return the plan with the kinds that the cluster lacks: our own can be defined, another one is a problem."""
    if seen.plan is None:
        return seen
    kinds = await unserved_kinds(client, seen.plan)
    problem = unserved_error(client.cluster, kinds, await client.discovery()) if kinds else None
    return replace(seen, undefined=kinds, problem=seen.problem or problem) if kinds else seen
