"""Comparison of desired with desired: what a merge changes in what git wants, with no cluster asked. Pure.

The plan is made by the same rules as for a cluster, as if the cluster had exactly what the base says. So it has the
same verbs, the same refusals (`protect`, what an engine cannot do) and the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fleet.errors import FleetError, NotFoundError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.names import MANAGER
from fleet.objects.desired import Desired, Key, Object, StackCluster
from fleet.objects.fields import Fields
from fleet.objects.normalise import applied_hash, normalise
from fleet.objects.redaction import Secrecy, declared_secrecy
from fleet.plan import Entry, Inventory, Plan, Verb, keys_to_read, plan, plan_removed_placement
from fleet.plan.budget import DeletionBudget, check_budget, check_share, count_lost_objects
from fleet.plan.decide import CompareOptions
from fleet.plan.effect import is_retained
from fleet.sync.result import Result, refuse_forbidden
from fleet.sync.targets import check_cluster

BASE_MARK = "base"  # the UID and version of everything that the base wants


def compare_evaluations(
    before: Evaluation,
    after: Evaluation,
    *,
    stacks: Sequence[str] = (),
    clusters: Sequence[str] = (),
    budget: DeletionBudget,
) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """Return a result per placement, and remarks on what leaves git without anything being done to it.

    Raises NotFoundError for a name in `stacks` or `clusters` that neither side has.
    """
    _check_names(before, after, stacks, clusters)
    old, new = _desired_by_placement(before), _desired_by_placement(after)
    secrecy = secrecy_of([*old.values(), *new.values()])
    selected = [pair for pair in sorted({*old, *new}) if _is_selected(pair, stacks, clusters)]
    cluster_names = {cluster.name for cluster in after.clusters}
    stack_names = {stack.name for stack in after.stacks}
    results = [
        _compare_placement(pair, old.get(pair), new.get(pair), secrecy)
        for pair in selected
        if pair in new or (pair[0] in stack_names and pair[1] in cluster_names)
    ]
    return _check_budgets(results, budget), _describe_leaving(before, after, selected)


def _compare_placement(pair: StackCluster, before: Desired | None, after: Desired | None, secrecy: Secrecy) -> Result:
    try:
        if after is None:
            assert before is not None  # noqa: S101 - it is a pair of one of the two
            return Result(*pair, plan_removed_placement(_inventory(before)), leaving=True)
        plan_made = plan_difference(before, after, secrecy)
    except FleetError as error:
        return Result(*pair, problem=error)
    try:
        refuse_forbidden(plan_made)
    except PolicyError as error:
        return Result(*pair, plan_made, error)
    return Result(*pair, plan_made)


def plan_difference(before: Desired | None, after: Desired, secrecy: Secrecy) -> Plan:
    """Return the plan that leads from one desired state to another."""
    inventory = _inventory(before) if before else None
    live: dict[Key, dict[str, Any] | None] = dict.fromkeys(keys_to_read(after, inventory))
    desired_objects = {desired_object.key: desired_object for desired_object in after.objects}
    for old_object in before.objects if before else ():
        live[old_object.key] = (
            _unchanged_live(old_object)
            if desired_objects.get(old_object.key) == old_object
            else _applied_live(old_object)
        )
    base_plan = plan(after, inventory, live, options=CompareOptions(secrecy, exact=True))
    adopted = {desired_object.key: desired_object.take_from for desired_object in after.objects if desired_object.adopt}
    steps = tuple(
        step._replace(reason="taken over where it is there already", take_from=adopted[step.key])
        if step.verb is Verb.CREATE and step.key in adopted
        else step
        for step in base_plan.steps
    )
    return Plan(base_plan.stack, base_plan.cluster, steps, base_plan.inventory)


def _check_budgets(results: Iterable[Result], budget: DeletionBudget) -> tuple[Result, ...]:
    by_cluster: dict[str, list[Result]] = {}
    for result in results:
        by_cluster.setdefault(result.cluster, []).append(result)
    checked = [_check_result(result, neighbours, budget) for neighbours in by_cluster.values() for result in neighbours]
    return tuple(sorted(checked, key=lambda result: (result.stack, result.cluster)))


def _check_result(result: Result, neighbours: Sequence[Result], budget: DeletionBudget) -> Result:
    """Check one result against the budget; `beside` is all that goes to the same cluster."""
    if result.problem or not result.plan or not count_lost_objects(result.plan):
        return result
    try:
        check_share(result.plan, budget)
        check_budget(result.cluster, [neighbour.plan for neighbour in neighbours if neighbour.plan], budget)
    except PolicyError as error:
        return replace(result, problem=error)
    return result


def _describe_leaving(before: Evaluation, after: Evaluation, selected: Sequence[StackCluster]) -> tuple[str, ...]:
    selected_stacks = {stack for stack, _ in selected}
    selected_clusters = {cluster for _, cluster in selected}
    stacks = sorted(
        ({stack.name for stack in before.stacks} - {stack.name for stack in after.stacks}) & selected_stacks
    )
    clusters = sorted(
        ({cluster.name for cluster in before.clusters} - {cluster.name for cluster in after.clusters})
        & selected_clusters
    )
    return (
        *(f"stack {name} leaves git; what it has stays, until `fleet destroy {name}` removes it" for name in stacks),
        *(f"cluster {name} leaves the fleet; what is there is left running" for name in clusters),
    )


def _check_names(before: Evaluation, after: Evaluation, stacks: Sequence[str], clusters: Sequence[str]) -> None:
    stack_names = {stack.name for stack in (*before.stacks, *after.stacks)}
    for name in stacks:
        if name not in stack_names:
            raise NotFoundError(
                f"there is no stack {name!r}", hint=f"stacks are: {', '.join(sorted(stack_names)) or 'none'}"
            )
    for name in clusters:
        check_cluster((*before.clusters, *after.clusters), name)


def _is_selected(pair: StackCluster, stacks: Sequence[str], clusters: Sequence[str]) -> bool:
    return (not stacks or pair[0] in stacks) and (not clusters or pair[1] in clusters)


def _desired_by_placement(evaluation: Evaluation) -> dict[StackCluster, Desired]:
    return {(desired.stack, desired.cluster): desired for stack in evaluation.stacks for desired in stack.desired}


def secrecy_of(desired_states: Iterable[Desired]) -> Secrecy:
    """Return what definitions in git, and those of our own kinds, say is secret."""
    objects = [obj for desired in desired_states for obj in desired.objects]
    declared = declared_secrecy(obj.manifest for obj in objects if obj.key.kind == "CustomResourceDefinition")
    apps = sorted({(obj.app, obj.key.group) for obj in objects if obj.app})
    if not apps:
        return declared
    from fleet.apps.registry import driver  # noqa: PLC0415 - the app types are loaded only where there are apps
    from fleet.render.crd import definition  # noqa: PLC0415

    drivers = (driver(kind, group) for kind, group in apps)
    return declared | declared_secrecy(definition(app_driver) for app_driver in drivers if app_driver)


def _inventory(before: Desired) -> Inventory:
    return Inventory(before.stack, before.cluster, entries=tuple(_entry(obj) for obj in before.objects))


def _entry(obj: Object) -> Entry:
    return Entry(
        key=obj.key,
        version=obj.version,
        uid=BASE_MARK,
        hash=obj.hash_with(applied_hash),
        retain=obj.retain_on_delete or is_retained(obj.key, obj.manifest),
        protect=obj.protect,
        after=obj.depends_on,
        ignores=obj.ignore_changes,
        seen=BASE_MARK,
    )


def _unchanged_live(obj: Object) -> dict[str, Any]:
    """Return, of an object that does not change, only what is read to see that."""
    return {"metadata": {"name": obj.key.name, "uid": BASE_MARK, "resourceVersion": BASE_MARK}}


def _applied_live(obj: Object) -> dict[str, Any]:
    """Return an object as if it had been applied to a cluster that adds nothing of its own."""
    manifest = normalise(obj.manifest)
    metadata_rest = {name: value for name, value in manifest["metadata"].items() if name not in ("name", "namespace")}
    content = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}
    fields = {
        "manager": MANAGER,
        "operation": "Apply",
        "fieldsV1": _owned_fields({**content, "metadata": metadata_rest}),
    }
    metadata = {**manifest["metadata"], "uid": BASE_MARK, "resourceVersion": BASE_MARK, "managedFields": [fields]}
    return {**manifest, "metadata": metadata}


def _owned_fields(value: Any) -> Fields:
    """Return fieldsV1 for all of it, as a server records it; items of lists are keyed by name if they have one."""
    if isinstance(value, dict):
        return {f"f:{name}": _owned_fields(inner) for name, inner in value.items()}
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, dict) and _is_name(item.get("name")) for item in value)
    ):
        names = [item["name"] for item in value]
        if len(set(names)) == len(names):
            return {_item_key(item["name"]): {".": {}, **_owned_fields(item)} for item in value}
    return {}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _item_key(name: str) -> str:
    import orjson  # noqa: PLC0415 - for lists of named items

    return f"k:{orjson.dumps({'name': name}).decode()}"
