"""What every view of plans starts from: stack → cluster → steps, clusters without a plan (unreachable) included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.plan.step import Plan, Step, Verb

SUMMED_UP = (Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.DELETE, Verb.FORGET, Verb.RECORD)


@dataclass(frozen=True, slots=True)
class Branch:
    """One stack on one cluster: its plan, or the problem that there is instead of one."""

    stack: str
    cluster: str
    plan: Plan | None = None
    problem: str = ""

    def steps(self, *, unchanged: bool = False) -> tuple[Step, ...]:
        """The steps to show. An unchanged object with a reason has something to say and is shown always."""
        steps = self.plan.steps if self.plan else ()
        return tuple(step for step in steps if unchanged or step.verb is not Verb.UNCHANGED or step.reason)

    @property
    def taken_from(self) -> str:
        return self.plan.taken_from if self.plan else ""


def by_stack(branches: Iterable[Branch]) -> dict[str, list[Branch]]:
    forest: dict[str, list[Branch]] = {}
    for branch in sorted(branches, key=lambda one: (one.stack, one.cluster)):
        forest.setdefault(branch.stack, []).append(branch)
    return forest


def totals(branches: Iterable[Branch]) -> Counter[Verb]:
    return Counter(step.verb for branch in branches if branch.plan for step in branch.plan.steps)


def summary(branches: Iterable[Branch]) -> str:
    """One line: "3 to create, 1 to update, 5 unchanged"."""
    branches = list(branches)
    counts = totals(branches)
    parts = [f"{counts[verb]} to {verb}" for verb in SUMMED_UP if counts[verb]]
    if counts[Verb.CONFLICT]:
        parts.append(f"{counts[Verb.CONFLICT]} in conflict")
    taken = sum(bool(branch.taken_from) for branch in branches)
    if taken:
        parts.append(f"{taken} to take over")
    failed = len({branch.cluster for branch in branches if branch.problem})
    if failed:
        parts.append(f"{failed} cluster{'s' if failed > 1 else ''} failed")
    if not parts:
        parts.append("no changes")
    if counts[Verb.UNCHANGED]:
        parts.append(f"{counts[Verb.UNCHANGED]} unchanged")
    return ", ".join(parts)


def short(value: Any, width: int = 60) -> str:
    """A value in a line of text."""

    text = "(none)" if value is None else orjson.dumps(value).decode()
    return text if len(text) <= width else f"{text[: width - 1]}…"
