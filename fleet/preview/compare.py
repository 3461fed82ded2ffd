"""Desired against desired: what a merge changes in what git wants, with no cluster asked. Pure.

The plan is made by the same rules as for a cluster, as if the cluster had exactly what the base says. So it has the
same verbs, the same refusals (`protect`, what an engine cannot do) and the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fleet.errors import FleetError, NotFoundError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.objects.desired import Desired, Key, Object, StackCluster
from fleet.objects.fields import MANAGER, Fields
from fleet.objects.normalise import applied_hash, normalise
from fleet.objects.redaction import Secrecy, declared_secrecy
from fleet.plan import Entry, Inventory, Plan, Verb, keys_to_read, plan, plan_removed_placement
from fleet.plan.budget import DeletionBudget, check_budget, check_share, count_lost_objects
from fleet.plan.decide import CompareOptions
from fleet.plan.effect import is_retained
from fleet.sync.result import Result, refuse_forbidden
from fleet.sync.targets import check_cluster

THERE = "base"  # the UID and version of everything that the base wants


def between(
    before: Evaluation,
    after: Evaluation,
    *,
    stacks: Sequence[str] = (),
    clusters: Sequence[str] = (),
    budget: DeletionBudget,
) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """A result per stack and cluster, and remarks on what leaves git without anything being done to it."""
    _check_names(before, after, stacks, clusters)
    old, new = _pairs(before), _pairs(after)
    secrecy = secrecy_of([*old.values(), *new.values()])
    wanted = [pair for pair in sorted({*old, *new}) if _is_chosen(pair, stacks, clusters)]
    here = {one.name for one in after.clusters}
    kept = {one.name for one in after.stacks}
    made = [
        _result(pair, old.get(pair), new.get(pair), secrecy)
        for pair in wanted
        if pair in new or (pair[0] in kept and pair[1] in here)
    ]
    return _within_budget(made, budget), _leaving(before, after, wanted)


def _result(pair: StackCluster, before: Desired | None, after: Desired | None, secrecy: Secrecy) -> Result:
    try:
        if after is None:
            assert before is not None  # noqa: S101 - it is a pair of one of the two
            return Result(*pair, plan_removed_placement(_inventory(before)), leaving=True)
        made = changed(before, after, secrecy)
    except FleetError as problem:
        return Result(*pair, problem=problem)
    try:
        refuse_forbidden(made)
    except PolicyError as problem:
        return Result(*pair, made, problem)
    return Result(*pair, made)


def changed(before: Desired | None, after: Desired, secrecy: Secrecy) -> Plan:
    """The plan that leads from what the one wants to what the other wants."""
    inventory = _inventory(before) if before else None
    live: dict[Key, dict[str, Any] | None] = dict.fromkeys(keys_to_read(after, inventory))
    same = {one.key: one for one in after.objects}
    for one in before.objects if before else ():
        live[one.key] = _bare(one) if same.get(one.key) == one else _applied(one)
    made = plan(after, inventory, live, options=CompareOptions(secrecy, exact=True))
    adopted = {one.key: one.take_from for one in after.objects if one.adopt}
    steps = tuple(
        step._replace(reason="taken over where it is there already", take_from=adopted[step.key])
        if step.verb is Verb.CREATE and step.key in adopted
        else step
        for step in made.steps
    )
    return Plan(made.stack, made.cluster, steps, made.inventory)


def _within_budget(results: Iterable[Result], budget: DeletionBudget) -> tuple[Result, ...]:
    by_cluster: dict[str, list[Result]] = {}
    for one in results:
        by_cluster.setdefault(one.cluster, []).append(one)
    checked = [_checked(one, its, budget) for its in by_cluster.values() for one in its]
    return tuple(sorted(checked, key=lambda one: (one.stack, one.cluster)))


def _checked(result: Result, beside: Sequence[Result], budget: DeletionBudget) -> Result:
    """`beside` is all that goes to the same cluster."""
    if result.problem or not result.plan or not count_lost_objects(result.plan):
        return result
    try:
        check_share(result.plan, budget)
        check_budget(result.cluster, [one.plan for one in beside if one.plan], budget)
    except PolicyError as problem:
        return replace(result, problem=problem)
    return result


def _leaving(before: Evaluation, after: Evaluation, wanted: Sequence[StackCluster]) -> tuple[str, ...]:
    asked = {stack for stack, _ in wanted}
    places = {cluster for _, cluster in wanted}
    stacks = sorted(({one.name for one in before.stacks} - {one.name for one in after.stacks}) & asked)
    clusters = sorted(({one.name for one in before.clusters} - {one.name for one in after.clusters}) & places)
    return (
        *(f"stack {name} leaves git; what it has stays, until `fleet destroy {name}` removes it" for name in stacks),
        *(f"cluster {name} leaves the fleet; what is there is left running" for name in clusters),
    )


def _check_names(before: Evaluation, after: Evaluation, stacks: Sequence[str], clusters: Sequence[str]) -> None:
    known = {one.name for one in (*before.stacks, *after.stacks)}
    for name in stacks:
        if name not in known:
            raise NotFoundError(f"there is no stack {name!r}", hint=f"stacks are: {', '.join(sorted(known)) or 'none'}")
    for name in clusters:
        check_cluster((*before.clusters, *after.clusters), name)


def _is_chosen(pair: StackCluster, stacks: Sequence[str], clusters: Sequence[str]) -> bool:
    return (not stacks or pair[0] in stacks) and (not clusters or pair[1] in clusters)


def _pairs(evaluation: Evaluation) -> dict[StackCluster, Desired]:
    return {(one.stack, one.cluster): one for stack in evaluation.stacks for one in stack.desired}


def secrecy_of(wanted: Iterable[Desired]) -> Secrecy:
    """What definitions in git, and those of our own kinds, say is secret."""
    objects = [one for each in wanted for one in each.objects]
    found = declared_secrecy(one.manifest for one in objects if one.key.kind == "CustomResourceDefinition")
    apps = sorted({one.app for one in objects if one.app})
    if not apps:
        return found
    from fleet.apps.registry import driver  # noqa: PLC0415 - the app types are loaded only where there are apps
    from fleet.render.crd import definition  # noqa: PLC0415

    known = (driver(kind) for kind in apps)
    return found | declared_secrecy(definition(one) for one in known if one)


def _inventory(before: Desired) -> Inventory:
    return Inventory(before.stack, before.cluster, entries=tuple(_entry(one) for one in before.objects))


def _entry(one: Object) -> Entry:
    return Entry(
        key=one.key,
        version=one.manifest["apiVersion"].rpartition("/")[2],
        uid=THERE,
        hash=one.hash_with(applied_hash),
        retain=one.retain_on_delete or is_retained(one.key, one.manifest),
        protect=one.protect,
        after=one.depends_on,
        ignores=one.ignore_changes,
        seen=THERE,
    )


def _bare(one: Object) -> dict[str, Any]:
    """Of an object that does not change, only what is looked at to see that."""
    return {"metadata": {"name": one.key.name, "uid": THERE, "resourceVersion": THERE}}


def _applied(one: Object) -> dict[str, Any]:
    """As if it had been applied to a cluster that adds nothing of its own."""
    manifest = normalise(one.manifest)
    named = {name: value for name, value in manifest["metadata"].items() if name not in ("name", "namespace")}
    content = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}
    fields = {"manager": MANAGER, "operation": "Apply", "fieldsV1": _owned({**content, "metadata": named})}
    metadata = {**manifest["metadata"], "uid": THERE, "resourceVersion": THERE, "managedFields": [fields]}
    return {**manifest, "metadata": metadata}


def _owned(value: Any) -> Fields:
    """All of it, in the form in which a server records it; items of lists are known by their names if they have any."""
    if isinstance(value, dict):
        return {f"f:{name}": _owned(below) for name, below in value.items()}
    if isinstance(value, list) and value and all(isinstance(one, dict) and _is_name(one.get("name")) for one in value):
        names = [one["name"] for one in value]
        if len(set(names)) == len(names):
            return {_item(one["name"]): {".": {}, **_owned(one)} for one in value}
    return {}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _item(name: str) -> str:
    import orjson  # noqa: PLC0415 - for lists of named items

    return f"k:{orjson.dumps({'name': name}).decode()}"
