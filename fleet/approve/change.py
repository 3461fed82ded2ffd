"""From what a preview compared, or from plans for clusters, to what is recorded about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fleet.approve.record import Edge
from fleet.approve.state import ABSENT, state, state_of_entry, states
from fleet.evaluate.result import Evaluation
from fleet.model.desired import Desired, Key, Object, StackCluster
from fleet.plan import Plan, Verb
from fleet.plan.severity import Severity, severity

REPAIR = Severity.UPDATE  # what may happen to an object to make it again what was approved
UNTOUCHED = frozenset({Verb.UNCHANGED, Verb.CONFLICT})


def pairs(evaluation: Evaluation) -> dict[StackCluster, Desired]:
    return {(one.stack, one.cluster): one for stack in evaluation.stacks for one in stack.desired}


def merged(before: Evaluation, after: Evaluation, shown: Iterable[Plan], live: Iterable[Plan] = ()) -> list[Edge]:
    """What a merge changes, and the most that was shown to happen to each object, in git and (`live`) in clusters."""
    old, new = pairs(before), pairs(after)
    changed = {(one.stack, one.cluster): one for one in shown}
    there = {(one.stack, one.cluster): one for one in live}
    return [
        edge
        for pair in sorted({*old, *new})
        for edge in _of_pair(pair, old.get(pair), new.get(pair), changed.get(pair), there.get(pair))
    ]


def planned(evaluation: Evaluation, plans: Iterable[Plan]) -> list[Edge]:
    """What plans for clusters do there: from what a cluster has to what git wants."""
    wanted = pairs(evaluation)
    return [
        Edge(
            plan.stack,
            plan.cluster,
            step.key,
            state_of_entry(plan.inventory.get(step.key)),
            after.get(step.key, ABSENT),
            severity(step),
        )
        for plan in plans
        for after in [states(wanted.get((plan.stack, plan.cluster)))]
        for step in plan.steps
        if step.verb not in UNTOUCHED
    ]


def _of_pair(
    pair: StackCluster, before: Desired | None, after: Desired | None, shown: Plan | None, live: Plan | None
) -> Iterator[Edge]:
    old, new = _names(before), _names(after)
    most = _most(shown, new)
    there = _most(live, new)
    for key in sorted({*old, *new}):
        was, will = _state(old, key), _state(new, key)
        if old.get(key) != new.get(key) and was != will:
            yield Edge(*pair, key, was, will, max(most.get(key, Severity.NOTHING), there.pop(key, Severity.NOTHING)))
    for key, found in sorted(there.items()):
        if found > REPAIR and live is not None:
            will = _state(new, key)
            yield Edge(*pair, key, will or state_of_entry(live.inventory.get(key)), will, found)


def _names(desired: Desired | None) -> dict[Key, Object]:
    """Every object under each name that it may have in the cluster."""
    objects = desired.objects if desired else ()
    return {**{alias: one for one in objects for alias in one.other_keys}, **{one.key: one for one in objects}}


def _state(objects: Mapping[Key, Object], key: Key) -> str:
    return state(objects[key], key) if key in objects else ABSENT


def _most(plan: Plan | None, wanted: Mapping[Key, Object]) -> dict[Key, Severity]:
    """By the name that the object has in the plan, and by its others."""
    found: dict[Key, Severity] = {}
    for step in plan.steps if plan else ():
        if step.verb in UNTOUCHED:
            continue
        one = wanted.get(step.key)
        level = severity(step)
        if one and one.adopt and step.verb is Verb.CREATE:
            level = max(level, Severity.UPDATE)  # it was said to be taken over where it is there already
        for key in (step.key, *((one.key, *one.other_keys) if one else ())):
            found[key] = max(level, found.get(key, Severity.NOTHING))
    return found
