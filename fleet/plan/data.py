"""A plan for programs: plain data with stable names, for JSON and YAML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.model.desired import Key
from fleet.plan.digest import plan_hash
from fleet.plan.forest import Branch, by_stack, totals
from fleet.plan.step import Step, Verb


def plan_data(branches: Iterable[Branch], *, unchanged: bool = False) -> dict[str, Any]:
    branches = list(branches)
    counts = totals(branches)
    return {
        "hash": plan_hash(branch.plan for branch in branches if branch.plan),
        "summary": {verb.value: counts[verb] for verb in Verb},
        "stacks": [
            {"stack": stack, "clusters": [_branch(branch, unchanged) for branch in its]}
            for stack, its in by_stack(branches).items()
        ],
    }


def key_data(key: Key) -> dict[str, str]:
    return {"group": key.group, "kind": key.kind, "namespace": key.namespace, "name": key.name}


def _branch(branch: Branch, unchanged: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"cluster": branch.cluster}
    if branch.problem:
        return {**data, "error": branch.problem}
    if branch.taken_from:
        data["takenFrom"] = branch.taken_from
    return {**data, "steps": [_step(step) for step in branch.steps(unchanged=unchanged)]}


def _step(step: Step) -> dict[str, Any]:
    data: dict[str, Any] = {"verb": step.verb.value, "object": key_data(step.key)}
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
    return data
