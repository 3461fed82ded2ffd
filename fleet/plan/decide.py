"""Desired x inventory x live to a plan (fast path).

The step for an object that nobody has touched since it was applied, and of which the file says what was applied.

So it is with most objects in most syncs. The inventory has the hash of what was applied and the version that the object
had by that; while both are still so, nothing has to be compared field by field.

On which terms objects are compared: what else is known about them than the objects say themselves.

Desired × inventory × live → the steps that make them agree: one object, one verb.

Nothing here asks anybody anything: `live` maps every key of `keys_to_read` to its object, or to None where the object
is certainly absent. Whoever does not know that cannot make a plan. `adoption_keys` may be missing there: the plan then
says that it did not compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleet.names import name_in_git
from fleet.objects.desired import Desired, Key, Object, adopted_stateful_set
from fleet.objects.normalise import applied_hash
from fleet.objects.redaction import BUILT_IN, Secrecy
from fleet.objects.shape import mapping
from fleet.plan.effect import is_retained
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.ownership import RepositoryOwnership
from fleet.plan.step import Plan, Step, Verb


def unchanged_step(wanted: Object, key: Key, known: Entry | None, live: dict[str, Any] | None) -> Step | None:
    """None when it is not certain, and a closer look is needed."""
    if known is None or live is None or not _is_as_applied(wanted, key, known, live["metadata"]):
        return None
    return Step(
        Verb.UNCHANGED,
        key,
        uid=known.uid,
        resource_version=known.seen,
        source=wanted.source,
        depends_on=wanted.depends_on,
        entry=known,
    )


def _is_as_applied(wanted: Object, key: Key, known: Entry, there: dict[str, Any]) -> bool:
    manifest = wanted.manifest
    return (
        known.seen == there.get("resourceVersion")
        and known.uid == there["uid"]
        and known.hash == wanted.hash_with(applied_hash)
        and "deletionTimestamp" not in there
        and known.version == manifest["apiVersion"].rpartition("/")[2]
        and known.protect == wanted.protect
        and known.after == wanted.depends_on
        and known.ignores == wanted.ignore_changes
        and known.retain == (wanted.retain_on_delete or is_retained(key, manifest))
    )


@dataclass(frozen=True, slots=True)
class CompareOptions:
    secrecy: Secrecy = BUILT_IN
    exact: bool = False  # "live" is what a commit says and not what a server made of it: nothing in it is a default


DEFAULT_OPTIONS = CompareOptions()


UNNAMED = RepositoryOwnership()
Live = Mapping[Key, dict[str, Any] | None]


def keys_to_read(desired: Desired, inventory: Inventory | None) -> tuple[Key, ...]:
    """Every key that `plan` looks up in `live`, in no order."""
    keys = {one.key for one in desired.objects}
    keys.update(alias for one in desired.objects for alias in one.aliases)
    keys.update(entry.key for entry in (inventory.entries if inventory else ()))
    return tuple(keys)


def adoption_keys(desired: Desired, live: Live) -> Iterator[Key]:
    """The StatefulSets that apps of the stack are still to take over, or whose members were not rolled since: not the
    stack's own, so whole as others left them.
    """
    for one in desired.objects:
        if not one.app or (key := adopted_stateful_set(one.manifest)) is None:
            continue
        found = live[one.key]
        if found is None or not (_is_converged(found) or _has_values(found.get("spec"), one.manifest.get("spec"))):
            yield key


def _has_values(present: Any, wanted: Any) -> bool:
    """Tell whether all that is wanted is so; a server fills in more."""
    if isinstance(present, Mapping) and isinstance(wanted, Mapping):
        return all(_has_values(present.get(name), value) for name, value in wanted.items())
    return bool(present == wanted)


def _is_converged(found: Mapping[str, Any]) -> bool:
    """Tell whether the operator says that nothing of what it took over waits for a roll any more."""
    conditions = mapping(found.get("status")).get("conditions")
    return isinstance(conditions, list) and any(
        isinstance(one, Mapping) and (one.get("type"), one.get("status")) == ("Converged", "True") for one in conditions
    )


def plan(
    desired: Desired,
    inventory: Inventory | None,
    live: Live,
    *,
    revision: str = "",
    ownership: RepositoryOwnership = UNNAMED,
    options: CompareOptions = DEFAULT_OPTIONS,
) -> Plan:
    """The plan for one stack on one cluster; ConflictError where the stack there is not the claimant's."""
    before = inventory or Inventory(desired.stack, desired.cluster)
    ownership.check(before, desired.cluster, desired.source)
    entries = before.by_key()
    objects = {one.key: one for one in desired.objects}
    former = _former_keys(objects, entries, live)
    steps = []
    for name, one in objects.items():
        key = former.get(name, name)
        if key != name and one.app:
            steps.append(_renamed_app_conflict(one, key, live[key]))
            continue
        moved = _with_former_keys(one, key, former) if former else one
        known, there = entries.get(key), live[key]
        step = unchanged_step(moved, key, known, there)
        if step is None:
            from fleet.plan import object_step  # noqa: PLC0415 - all that compares is loaded when there is something to compare

            step = object_step.desired_step(
                desired.stack, moved, key, known, there, options=options, around={} if options.exact else live
            )
        called = name_in_git(one.manifest) if one.app else name.name
        if called != key.name and not step.reason and (key != name or step.verb is not Verb.UNCHANGED):
            step = step._replace(reason=f"is {called} in the stack and keeps its name in the cluster")
        steps.append(step)
    rest = entries.keys() - {step.key for step in steps}
    if rest:
        steps += _removed_steps(desired.stack, [entries[key] for key in sorted(rest, reverse=True)], live)
    if any(step.verb is Verb.CONFLICT for step in steps):
        from fleet.plan.object_step import hold_back_deletion  # noqa: PLC0415 - as below

        steps = [hold_back_deletion(step, entries) for step in steps]
    return Plan(desired.stack, desired.cluster, tuple(steps), before, revision, repository=ownership.repository)


def _removed_steps(stack: str, entries: list[Entry], live: Live) -> list[Step]:
    from fleet.plan import object_step  # noqa: PLC0415

    first = object_step.deletion_order(entries)
    return [object_step.removed_step(stack, one, live[one.key], first.get(one.key, ())) for one in entries]


def plan_removed_placement(inventory: Inventory, ownership: RepositoryOwnership = UNNAMED) -> Plan:
    """The plan for a cluster that a stack is no longer placed on: everything is left running and forgotten."""
    ownership.check(inventory, inventory.cluster)
    reason = f"{inventory.stack} is no longer placed on {inventory.cluster}; left running"
    steps = tuple(Step(Verb.FORGET, entry.key, uid=entry.uid or None, reason=reason) for entry in inventory.entries)
    return Plan(inventory.stack, inventory.cluster, steps, inventory, leaving=True, repository=ownership.repository)


def _former_keys(objects: Mapping[Key, Object], entries: Mapping[Key, Entry], live: Live) -> dict[Key, Key]:
    """New key → the key under which the object is in the cluster. Kubernetes cannot rename; so the name stays there."""
    found: dict[Key, Key] = {}
    for name, one in objects.items():
        if not one.aliases or name in entries or live[name] is not None:
            continue
        for alias in one.aliases:
            same_kind = (alias.group, alias.kind) == (name.group, name.kind)
            if same_kind and alias in entries and alias not in objects and live[alias] is not None:
                found[name] = alias
                break
    return found


def _renamed_app_conflict(one: Object, key: Key, live: dict[str, Any] | None) -> Step:
    """What an app is called in a cluster is what the stack says, or its addresses would be of nothing."""
    metadata = live["metadata"] if live else {}
    return Step(
        Verb.CONFLICT,
        key,
        uid=metadata.get("uid"),
        source=one.source,
        depends_on=one.depends_on,
        reason=f"by its aliases it is called {one.key.name} in this cluster, and it is {key.name} there: let that come "
        "first in aliases, or take them away where it has its name of today",
        refused=True,
    )


def _with_former_keys(one: Object, key: Key, former: Mapping[Key, Key]) -> Object:
    """The object as it is called in the cluster, and with dependencies as those are called there."""
    depends_on = tuple(former.get(other, other) for other in one.depends_on)
    metadata = {**one.manifest["metadata"], "name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return replace(one, manifest={**one.manifest, "metadata": metadata}, depends_on=depends_on, hash="")
