"""A merge against the clusters: what a sync would do after it, every server asked, and which of it is drift.

Clusters are reached as the base says. A pull request that adds a cluster, or that changes how one is reached, decides
nothing about where its own preview sends requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleet.evaluate.result import ClusterData, Evaluation
from fleet.model.desired import Key
from fleet.plan import Plan, Step, Verb
from fleet.sync.choice import Target, targets
from fleet.sync.outcome import Result

MISSING = "drift: git has it already, and the cluster does not"
DIFFERS = "drift: git does not change it; the cluster differs from what git says already"


def reachable(
    before: Evaluation, after: Evaluation, *, stacks: Sequence[str], clusters: Sequence[str]
) -> tuple[tuple[Target, ...], list[str]]:
    """The clusters to ask, and remarks on those that are not asked, or not as the head says."""
    known = {one.name: one for one in before.clusters}
    remarks: list[str] = []
    chosen: list[ClusterData] = []
    for one in after.clusters:
        there = known.get(one.name)
        if clusters and one.name not in clusters:
            continue
        if there is None:
            remarks.append(f"{one.name}: new in this change, so it is not asked; all of it is to create")
            continue
        if (there.context, there.secret, there.pull) != (one.context, one.secret, one.pull):
            remarks.append(f"{one.name}: the change alters how it is reached; it is asked as the base says")
        chosen.append(replace(one, context=there.context, secret=there.secret, pull=there.pull))
    return targets(replace(after, clusters=tuple(chosen)), stacks, ()), remarks


def with_drift(live: Sequence[Result], changed: Sequence[Result]) -> tuple[Result, ...]:
    """Steps of the live plans that the merge does not bring are marked; clusters that were not asked keep theirs."""
    plans = {(one.stack, one.cluster): one.plan for one in changed}
    asked = {(one.stack, one.cluster) for one in live}
    marked = [
        replace(one, plan=_marked(one.plan, plans.get((one.stack, one.cluster)))) if one.plan else one for one in live
    ]
    rest = [one for one in changed if (one.stack, one.cluster) not in asked]
    return tuple(sorted([*marked, *rest], key=lambda one: (one.stack, one.cluster)))


def _marked(live: Plan, changed: Plan | None) -> Plan:
    same: set[Key] = {step.key for step in changed.having(Verb.UNCHANGED)} if changed else set()
    return replace(live, steps=tuple(_drift(step) if step.key in same else step for step in live.steps))


def _drift(step: Step) -> Step:
    if step.verb is Verb.CREATE:
        return step._replace(drift=True, reason=step.reason or MISSING)
    if step.verb is Verb.UPDATE:
        return step._replace(drift=True, reason=step.reason or DIFFERS)
    return step
