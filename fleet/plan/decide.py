"""The decision desired × inventory × live → the steps that make them agree: one object, one verb. Pure.

It does no I/O: `live` maps every key of `keys_to_read` to its object, or to None where the object is certainly absent.
A caller that does not know that cannot make a plan. `adoption_keys` may be missing in it: the plan then says that it
did not compare.

Most objects in most syncs were not touched since they were applied, and the file says what was applied. The inventory
has the hash of what was applied and the version that the object had by that; while both are still so, nothing has to be
compared field by field (`unchanged_step`).
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
from fleet.plan.effect import holds_data, is_retained
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.ownership import RepositoryOwnership
from fleet.plan.step import Plan, Step, Verb


def unchanged_step(desired: Object, key: Key, entry: Entry | None, live: dict[str, Any] | None) -> Step | None:
    """Return the step for an object that was not touched since it was applied and is still wanted so; None when that is
    not certain, and the fields must be compared.
    """
    if entry is None or live is None or not _is_as_applied(desired, key, entry, live["metadata"]):
        return None
    return Step(
        Verb.UNCHANGED,
        key,
        uid=entry.uid,
        resource_version=entry.seen,
        source=desired.source,
        depends_on=desired.depends_on,
        entry=entry,
    )


def _is_as_applied(desired: Object, key: Key, entry: Entry, metadata: dict[str, Any]) -> bool:
    return (
        entry.seen == metadata.get("resourceVersion")
        and entry.uid == metadata["uid"]
        and entry.hash == desired.hash_with(applied_hash)
        and "deletionTimestamp" not in metadata
        and entry.version == desired.version
        and entry.protect == desired.protect
        and entry.after == desired.depends_on
        and entry.ignores == desired.ignore_changes
        and entry.retain == (desired.retain_on_delete or (holds_data(key) and is_retained(key, desired.manifest)))
    )


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What is known about objects besides what they say themselves when they are compared."""

    secrecy: Secrecy = BUILT_IN
    exact: bool = False  # "live" is what a commit says and not what a server made of it: nothing in it is a default


DEFAULT_OPTIONS = CompareOptions()


UNNAMED = RepositoryOwnership()
Live = Mapping[Key, dict[str, Any] | None]


def keys_to_read(desired: Desired, inventory: Inventory | None) -> tuple[Key, ...]:
    """Return every key that `plan` looks up in `live`, in no order."""
    keys = {obj.key for obj in desired.objects}
    keys.update(alias for obj in desired.objects for alias in obj.aliases)
    keys.update(entry.key for entry in (inventory.entries if inventory else ()))
    return tuple(keys)


def adoption_keys(desired: Desired, live: Live) -> Iterator[Key]:
    """Yield the keys of StatefulSets that apps of the stack are still to adopt, or whose members were not rolled since.
    They are not the stack's own, so they must be read whole, as their owner left them.
    """
    for obj in desired.objects:
        if not obj.app or (key := adopted_stateful_set(obj.manifest)) is None:
            continue
        resource = live[obj.key]
        if resource is None or not (
            _is_converged(resource) or _has_values(resource.get("spec"), obj.manifest.get("spec"))
        ):
            yield key


def _has_values(present: Any, wanted: Any) -> bool:
    """Return whether `present` holds all values of `wanted`; a server fills in more."""
    if isinstance(present, Mapping) and isinstance(wanted, Mapping):
        return all(_has_values(present.get(name), value) for name, value in wanted.items())
    return bool(present == wanted)


def _is_converged(resource: Mapping[str, Any]) -> bool:
    """Return whether the operator reports that nothing of what it adopted waits for a roll any more."""
    conditions = mapping(resource.get("status")).get("conditions")
    return isinstance(conditions, list) and any(
        isinstance(condition, Mapping) and (condition.get("type"), condition.get("status")) == ("Converged", "True")
        for condition in conditions
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
    """Return the plan for one stack on one cluster; raise ConflictError where the stack there belongs to another
    repository.
    """
    before = inventory or Inventory(desired.stack, desired.cluster)
    ownership.check(before, desired.cluster, desired.source)
    entries = before.by_key()
    objects = {obj.key: obj for obj in desired.objects}
    former_keys = _former_keys(objects, entries, live)
    steps = []
    for name, obj in objects.items():
        key = former_keys.get(name, name)
        if key != name and obj.app:
            steps.append(_renamed_app_conflict(obj, key, live[key]))
            continue
        renamed = _with_former_keys(obj, key, former_keys) if former_keys else obj
        entry, live_object = entries.get(key), live[key]
        step = unchanged_step(renamed, key, entry, live_object)
        if step is None:
            from fleet.plan import object_step  # noqa: PLC0415 - all that compares is loaded when there is something to compare

            step = object_step.desired_step(
                desired.stack, renamed, key, entry, live_object, options=options, around={} if options.exact else live
            )
        current_name = name_in_git(obj.manifest) if obj.app else name.name
        if current_name != key.name and not step.reason and (key != name or step.verb is not Verb.UNCHANGED):
            step = step._replace(reason=f"is {current_name} in the stack and keeps its name in the cluster")
        steps.append(step)
    unwanted_keys = entries.keys() - {step.key for step in steps}
    if unwanted_keys:
        steps += _removed_steps(desired.stack, [entries[key] for key in sorted(unwanted_keys, reverse=True)], live)
    if any(step.verb is Verb.CONFLICT for step in steps):
        from fleet.plan.object_step import hold_back_deletion  # noqa: PLC0415 - as below

        steps = [hold_back_deletion(step, entries) for step in steps]
    return Plan(desired.stack, desired.cluster, tuple(steps), before, revision, repository=ownership.repository)


def _removed_steps(stack: str, entries: list[Entry], live: Live) -> list[Step]:
    from fleet.plan import object_step  # noqa: PLC0415

    deleted_before = object_step.deletion_order(entries)
    return [
        object_step.removed_step(stack, entry, live[entry.key], deleted_before.get(entry.key, ())) for entry in entries
    ]


def plan_removed_placement(inventory: Inventory, ownership: RepositoryOwnership = UNNAMED) -> Plan:
    """Return the plan for a cluster that a stack is no longer placed on: everything is left running and forgotten."""
    ownership.check(inventory, inventory.cluster)
    reason = f"{inventory.stack} is no longer placed on {inventory.cluster}; left running"
    steps = tuple(Step(Verb.FORGET, entry.key, uid=entry.uid or None, reason=reason) for entry in inventory.entries)
    return Plan(inventory.stack, inventory.cluster, steps, inventory, leaving=True, repository=ownership.repository)


def _former_keys(objects: Mapping[Key, Object], entries: Mapping[Key, Entry], live: Live) -> dict[Key, Key]:
    """Return new key → the key under which the object exists in the cluster. Kubernetes cannot rename; so the name
    stays there.
    """
    former_keys: dict[Key, Key] = {}
    for name, obj in objects.items():
        if not obj.aliases or name in entries or live[name] is not None:
            continue
        for alias in obj.aliases:
            same_kind = (alias.group, alias.kind) == (name.group, name.kind)
            if same_kind and alias in entries and alias not in objects and live[alias] is not None:
                former_keys[name] = alias
                break
    return former_keys


def _renamed_app_conflict(obj: Object, key: Key, live: dict[str, Any] | None) -> Step:
    """Return the conflict of an app whose aliases give it another name than it has in the cluster. The name there must
    be what the stack says, or its addresses would be of nothing.
    """
    metadata = live["metadata"] if live else {}
    return Step(
        Verb.CONFLICT,
        key,
        uid=metadata.get("uid"),
        source=obj.source,
        depends_on=obj.depends_on,
        reason=f"by its aliases it is called {obj.key.name} in this cluster, and it is {key.name} there: let that come "
        "first in aliases, or take them away where it has its name of today",
        refused=True,
    )


def _with_former_keys(obj: Object, key: Key, former_keys: Mapping[Key, Key]) -> Object:
    """Return the object with the name it has in the cluster, and with dependencies as those are called there."""
    depends_on = tuple(former_keys.get(other, other) for other in obj.depends_on)
    metadata = {**obj.manifest["metadata"], "name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return replace(obj, manifest={**obj.manifest, "metadata": metadata}, depends_on=depends_on, hash="")
