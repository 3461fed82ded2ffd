"""The selection of a part of a plan: what --target names with what it needs, or all but what --exclude names. Pure.

A pattern is STACK, STACK/NAME or STACK/KIND/NAME, with * and ? as in file names. What is left out keeps the state that
it has, in the cluster and in the inventory, and so does what cannot be made without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from fleet.errors import ConfigurationError, NotFoundError
from fleet.objects.desired import Key
from fleet.plan.inventory import Entry
from fleet.plan.step import Plan, Step, Verb


@dataclass(frozen=True, slots=True)
class Selection:
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in (*self.targets, *self.excludes):
            if not all(pattern.split("/")) or pattern.count("/") > 2:
                hint = "write STACK, STACK/NAME or STACK/KIND/NAME, such as orders/Etcd/registry"
                raise ConfigurationError(f"{pattern!r} names no object", hint=hint)

    def __bool__(self) -> bool:
        return bool(self.targets or self.excludes)

    def check(self, plans: Iterable[Plan]) -> None:
        """Raise NotFoundError for a pattern that matches nothing: a typing error would change too much, or nothing."""
        if not self:
            return
        objects = {(plan.stack, step.key) for plan in plans for step in plan.steps}
        for pattern in (*self.targets, *self.excludes):
            if not any(_matches(pattern, stack, key) for stack, key in objects):
                raise NotFoundError(f"{pattern!r} is no object of any stack of this run")


ALL_STEPS = Selection()


def select_steps(plan: Plan, selection: Selection) -> Plan:
    """Return the plan with the selected steps, the other ones being left as they are."""
    if not selection:
        return plan
    steps = {step.key: step for step in plan.steps}
    excluded = {key for key in steps if _matches_any(selection.excludes, plan.stack, key)}
    selected = {
        key for key in steps if not selection.targets or _matches_any(selection.targets, plan.stack, key)
    } - excluded
    needs = _find_needs(steps)
    if selection.targets:
        selected = _add_needs(selected, steps, needs) - excluded
    selected = _remove_blocked(selected, steps, needs)
    entries = plan.inventory.by_key()
    selected_steps = (
        step if step.key in selected else _leave_out(step, excluded, entries.get(step.key)) for step in plan.steps
    )
    return replace(plan, steps=tuple(selected_steps))


def _leave_out(step: Step, excluded: set[Key], entry: Entry | None) -> Step:
    if step.verb is Verb.UNCHANGED:
        return step
    reason = "left out by --exclude" if step.key in excluded else "not chosen, or not possible without what is left out"
    return Step(Verb.UNCHANGED, step.key, uid=step.uid, reason=reason, source=step.source, entry=entry)


def _find_needs(steps: dict[Key, Step]) -> dict[Key, set[Key]]:
    """Return what has to exist before each object: what it depends on, its namespace, the definition of its kind."""
    definitions = {
        (step.manifest["spec"]["group"], step.manifest["spec"]["names"]["kind"]): key
        for key, step in steps.items()
        if step.manifest and key.kind == "CustomResourceDefinition"
    }
    needs: dict[Key, set[Key]] = {}
    for key, step in steps.items():
        before = {*step.depends_on, Key("", "Namespace", "", key.namespace)}
        before |= {definitions[kind] for kind in [(key.group, key.kind)] if kind in definitions}
        needs[key] = {other for other in before if other in steps and other != key}
    return needs


def _add_needs(keys: set[Key], steps: dict[Key, Step], needs: dict[Key, set[Key]]) -> set[Key]:
    """Return the keys with all that does not exist yet and has to come first."""
    selected, pending = set(keys), list(keys)
    while pending:
        for other in needs[pending.pop()]:
            if other not in selected and steps[other].verb is Verb.CREATE:
                selected.add(other)
                pending.append(other)
    return selected


def _remove_blocked(keys: set[Key], steps: dict[Key, Step], needs: dict[Key, set[Key]]) -> set[Key]:
    """Return the keys without those that come after an object that is to be created and is left out."""
    while True:
        missing = {key for key, step in steps.items() if step.verb is Verb.CREATE and key not in keys}
        rest = {key for key in keys if steps[key].verb is Verb.DELETE or not needs[key] & missing}
        if rest == keys:
            return keys
        keys = rest


def _matches_any(patterns: Iterable[str], stack: str, key: Key) -> bool:
    return any(_matches(pattern, stack, key) for pattern in patterns)


def _matches(pattern: str, stack: str, key: Key) -> bool:
    first, *rest = pattern.split("/")
    parts = {0: (), 1: (key.name,), 2: (key.kind, key.name)}[len(rest)]
    return fnmatchcase(stack, first) and all(
        fnmatchcase(part, wanted) for part, wanted in zip(parts, rest, strict=True)
    )
