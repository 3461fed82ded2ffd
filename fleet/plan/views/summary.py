"""What every view of plans starts from: stack → cluster → steps, clusters without a plan (unreachable) included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any, NamedTuple

import orjson

from fleet.plan.effect import EffectKind, effect_of
from fleet.plan.step import Plan, Step, Verb
from fleet.plan.views.escape import escape_line
from fleet.text import count_noun, escape_json

SUMMED_UP = (Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.DELETE, Verb.FORGET, Verb.RECORD)


@dataclass(frozen=True, slots=True)
class PlanView:
    """One stack on one cluster: its plan, or the problem that there is instead of one."""

    stack: str
    cluster: str
    plan: Plan | None = None
    problem: str = ""
    note: str = ""  # why nothing is done there, though nothing is wrong

    def steps(self, *, unchanged: bool = False) -> tuple[Step, ...]:
        """The steps to show. An unchanged object with a reason has something to say and is shown always."""
        steps = self.plan.steps if self.plan else ()
        return tuple(step for step in steps if unchanged or step.verb is not Verb.UNCHANGED or step.reason)

    @property
    def taken_from(self) -> str:
        return self.plan.taken_from if self.plan else ""


@dataclass(frozen=True, slots=True)
class Revision:
    """A side of what is compared: as it was named, and the commit that it means."""

    name: str
    commit: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ViewHeader:
    """What was compared with what; the rest of a view besides its plans."""

    depth: str = "live"  # "live": git against the clusters; "desired": git against git, no cluster asked
    base: Revision | None = None
    head: Revision | None = None
    tree: str = ""  # git's id of the files after the merge
    plan_hash: str = ""  # of the change that the merge brings; "": that of the plans themselves
    hashes: Mapping[tuple[str, str], str] = field(default_factory=dict)  # the same by stack and cluster
    remarks: tuple[str, ...] = ()


LIVE_HEADER = ViewHeader()


_WORST_FIRST = {EffectKind.DATA: 0, EffectKind.DELETE: 2}


class DestructiveStep(NamedTuple):
    """A destructive step, and where it is."""

    stack: str
    cluster: str
    step: Step

    @property
    def words(self) -> str:
        return effect_of(self.step).words


def destructive_steps(branches: Iterable[PlanView]) -> list[DestructiveStep]:
    """Every destructive step, what takes data with it first."""
    found = [
        DestructiveStep(branch.stack, branch.cluster, step)
        for branch in sorted(branches, key=lambda one: (one.stack, one.cluster))
        for step in (branch.plan.steps if branch.plan else ())
        if effect_of(step).destructive
    ]
    return sorted(found, key=lambda one: _WORST_FIRST.get(effect_of(one.step).does, 1))


def group_by_stack(branches: Iterable[PlanView]) -> dict[str, list[PlanView]]:
    forest: dict[str, list[PlanView]] = {}
    for branch in sorted(branches, key=lambda one: (one.stack, one.cluster)):
        forest.setdefault(branch.stack, []).append(branch)
    return forest


def count_verbs(branches: Iterable[PlanView]) -> Counter[Verb]:
    return Counter(step.verb for branch in branches if branch.plan for step in branch.plan.steps)


def summary_line(branches: Iterable[PlanView]) -> str:
    """One line: "3 to create, 1 to update, 5 unchanged"."""
    branches = list(branches)
    counts = count_verbs(branches)
    parts = [f"{counts[verb]} to {verb}" for verb in SUMMED_UP if counts[verb]]
    if counts[Verb.CONFLICT]:
        parts.append(f"{counts[Verb.CONFLICT]} in conflict")
    taken = sum(bool(branch.taken_from) for branch in branches)
    if taken:
        parts.append(f"{taken} to take over")
    objections = sum(bool(step.objection) for branch in branches if branch.plan for step in branch.plan.steps)
    if objections:
        parts.append(f"{objections} refused by the server")
    failed = len({branch.cluster for branch in branches if branch.problem})
    if failed:
        parts.append(f"{count_noun(failed, 'cluster')} failed")
    if not parts:
        parts.append("no changes")
    if counts[Verb.UNCHANGED]:
        parts.append(f"{counts[Verb.UNCHANGED]} unchanged")
    return ", ".join(parts)


def short_value(value: Any, width: int = 60) -> str:
    """A value in a line of text."""

    return _cut_text(_value_text(value), width)


def short_values(before: Any, after: Any, width: int = 60) -> tuple[str, str]:
    """Two values in a line of text: of long ones, the part where they begin to differ."""
    texts = _value_text(before), _value_text(after)
    same = len(commonprefix(texts))  # noqa: RUF071 - of texts
    if same < width - 1 or texts[0] == texts[1]:
        return _cut_text(texts[0], width), _cut_text(texts[1], width)
    begin = same - width // 3
    one, other = (_cut_text(f"…{text[begin:]}", width) for text in texts)
    return one, other


def _value_text(value: Any) -> str:
    return "(none)" if value is None else escape_line(escape_json(orjson.dumps(value).decode()))


def _cut_text(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
