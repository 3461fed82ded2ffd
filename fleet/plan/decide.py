"""Desired × inventory × live → the steps that make them agree: one object, one verb.

Nothing here asks anybody anything: `live` maps every key of `keys_to_read` to its object, or to None where the object
is certainly absent. Whoever does not know that cannot make a plan. `keys_beside` may be missing there: the plan then
says that it did not compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fleet.model.desired import Desired, Key, Object
from fleet.model.form import mapping
from fleet.model.group import name_in_git
from fleet.model.taken_over import taken_over
from fleet.plan import untouched
from fleet.plan.claim import Claim
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.step import Plan, Step, Verb
from fleet.plan.terms import USUAL, Terms

NOBODY = Claim()
Live = Mapping[Key, dict[str, Any] | None]


def keys_to_read(desired: Desired, inventory: Inventory | None) -> tuple[Key, ...]:
    """Every key that `plan` looks up in `live`, in no order."""
    keys = {one.key for one in desired.objects}
    keys.update(alias for one in desired.objects for alias in one.aliases)
    keys.update(entry.key for entry in (inventory.entries if inventory else ()))
    return tuple(keys)


def keys_beside(desired: Desired, live: Live) -> Iterator[Key]:
    """The StatefulSets that apps of the stack are still to take over, or whose members were not rolled since: not the
    stack's own, so whole as others left them.
    """
    for one in desired.objects:
        if not one.app or (key := taken_over(one.manifest)) is None:
            continue
        found = live[one.key]
        if found is None or not (_is_converged(found) or _has(found.get("spec"), one.manifest.get("spec"))):
            yield key


def _has(present: Any, wanted: Any) -> bool:
    """Tell whether all that is wanted is so; a server fills in more."""
    if isinstance(present, Mapping) and isinstance(wanted, Mapping):
        return all(_has(present.get(name), value) for name, value in wanted.items())
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
    claim: Claim = NOBODY,
    terms: Terms = USUAL,
) -> Plan:
    """The plan for one stack on one cluster; ConflictError where the stack there is not the claimant's."""
    before = inventory or Inventory(desired.stack, desired.cluster)
    claim.check(before, desired.cluster, desired.source)
    entries = before.by_key()
    objects = {one.key: one for one in desired.objects}
    former = _former_keys(objects, entries, live)
    steps = []
    for name, one in objects.items():
        key = former.get(name, name)
        if key != name and one.app:
            steps.append(_called_otherwise(one, key, live[key]))
            continue
        moved = _moved(one, key, former) if former else one
        known, there = entries.get(key), live[key]
        step = untouched.step_for(moved, key, known, there)
        if step is None:
            from fleet.plan import wanted  # noqa: PLC0415 - all that compares is loaded when there is something to compare

            step = wanted.step_for(
                desired.stack, moved, key, known, there, terms=terms, around={} if terms.exact else live
            )
        called = name_in_git(one.manifest) if one.app else name.name
        if called != key.name and not step.reason and (key != name or step.verb is not Verb.UNCHANGED):
            step = step._replace(reason=f"is {called} in the stack and keeps its name in the cluster")
        steps.append(step)
    rest = entries.keys() - {step.key for step in steps}
    if rest:
        steps += _taken_out(desired.stack, [entries[key] for key in sorted(rest, reverse=True)], live)
    if any(step.verb is Verb.CONFLICT for step in steps):
        from fleet.plan.unwanted import held_back  # noqa: PLC0415 - as below

        steps = [held_back(step, entries) for step in steps]
    return Plan(desired.stack, desired.cluster, tuple(steps), before, revision, repository=claim.repository)


def _taken_out(stack: str, entries: list[Entry], live: Live) -> list[Step]:
    from fleet.plan import unwanted  # noqa: PLC0415

    first = unwanted.in_turn(entries)
    return [unwanted.step_for(stack, one, live[one.key], first.get(one.key, ())) for one in entries]


def leave(inventory: Inventory, claim: Claim = NOBODY) -> Plan:
    """The plan for a cluster that a stack is no longer placed on: everything is left running and forgotten."""
    claim.check(inventory, inventory.cluster)
    reason = f"{inventory.stack} is no longer placed on {inventory.cluster}; left running"
    steps = tuple(Step(Verb.FORGET, entry.key, uid=entry.uid or None, reason=reason) for entry in inventory.entries)
    return Plan(inventory.stack, inventory.cluster, steps, inventory, leaving=True, repository=claim.repository)


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


def _called_otherwise(one: Object, key: Key, live: dict[str, Any] | None) -> Step:
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


def _moved(one: Object, key: Key, former: Mapping[Key, Key]) -> Object:
    """The object as it is called in the cluster, and with dependencies as those are called there."""
    depends_on = tuple(former.get(other, other) for other in one.depends_on)
    metadata = {**one.manifest["metadata"], "name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return replace(one, manifest={**one.manifest, "metadata": metadata}, depends_on=depends_on, hash="")
