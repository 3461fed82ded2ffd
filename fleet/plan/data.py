"""A plan for programs: plain data with stable names, for JSON and YAML. `document` says what each of them means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.model.desired import Key
from fleet.plan.digest import plan_hash
from fleet.plan.effect import effect_of
from fleet.plan.forest import LIVE, About, Branch, Revision, totals
from fleet.plan.step import Step, Verb

SCHEMA = "fleet.dev/preview/v1"


def plan_data(branches: Iterable[Branch], *, unchanged: bool = False, about: About = LIVE) -> dict[str, Any]:
    branches = sorted(branches, key=lambda one: (one.stack, one.cluster))
    counts = totals(branches)
    steps = [_step(branch, step) for branch in branches for step in branch.steps(unchanged=unchanged)]
    return {
        "schemaVersion": SCHEMA,
        "depth": about.depth,
        **_sides(about),
        "planHash": about.plan_hash or plan_hash(branch.plan for branch in branches if branch.plan),
        "changeSummary": {verb.value: counts[verb] for verb in Verb},
        "destructive": sum(step["destructive"] for step in steps),
        "clusters": [_pair(branch, about) for branch in branches],
        "steps": sorted(steps, key=lambda step: not step["destructive"]),
        "remarks": list(about.remarks),
    }


def key_data(key: Key) -> dict[str, str]:
    return {"group": key.group, "kind": key.kind, "namespace": key.namespace, "name": key.name}


def _sides(about: About) -> dict[str, Any]:
    sides = {"base": about.base, "head": about.head}
    data: dict[str, Any] = {name: _revision(side) for name, side in sides.items() if side}
    return {**data, "tree": about.tree} if about.tree else data


def _revision(side: Revision) -> dict[str, str]:
    return {"name": side.name, "commit": side.commit, "subject": side.subject}


def _pair(branch: Branch, about: About) -> dict[str, Any]:
    data: dict[str, Any] = {"stack": branch.stack, "cluster": branch.cluster}
    digest = about.hashes.get((branch.stack, branch.cluster), "")
    if digest or branch.plan:
        data["planHash"] = digest or plan_hash([branch.plan] if branch.plan else ())
    if branch.problem:
        data["error"] = branch.problem
    if branch.note:
        data["note"] = branch.note
    return {**data, "takenFrom": branch.taken_from} if branch.taken_from else data


def _step(branch: Branch, step: Step) -> dict[str, Any]:
    effect = effect_of(step)
    data: dict[str, Any] = {
        "stack": branch.stack,
        "cluster": branch.cluster,
        "verb": step.verb.value,
        "object": key_data(step.key),
        "does": effect.does.value,
        "effect": effect.words,
        "destructive": effect.destructive,
    }
    if step.source.file:
        data["source"] = {"file": step.source.file, "line": step.source.line}
    if step.reason:
        data["reason"] = step.reason
    if step.meanings:
        data["meanings"] = list(step.meanings)
    if step.changes:
        data["changes"] = [
            {"path": change.path, "before": change.before, "after": change.after} for change in step.changes
        ]
    if step.drift:
        data["drift"] = True
    return {**data, "objection": step.objection} if step.objection else data
