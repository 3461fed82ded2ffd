"""The data that every view of plans starts from: stack → cluster → steps, clusters without a plan (unreachable)
included.
"""

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
    """One stack on one cluster: its plan, or the error that stands in the place of one."""

    stack: str
    cluster: str
    plan: Plan | None = None
    problem: str = ""
    note: str = ""  # why nothing is done there, though nothing is wrong

    def steps(self, *, unchanged: bool = False) -> tuple[Step, ...]:
        """Return the steps to show. An unchanged object with a reason has something to say and is shown always."""
        steps = self.plan.steps if self.plan else ()
        return tuple(step for step in steps if unchanged or step.verb is not Verb.UNCHANGED or step.reason)

    @property
    def taken_from(self) -> str:
        return self.plan.taken_from if self.plan else ""


@dataclass(frozen=True, slots=True)
class NamedRevision:
    """A side of what is compared: as it was named, and the commit that it means."""

    name: str
    commit: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ViewHeader:
    """The sides that were compared; the rest of a view besides its plans."""

    depth: str = "live"  # "live": git against the clusters; "desired": git against git, no cluster asked
    base: NamedRevision | None = None
    head: NamedRevision | None = None
    tree: str = ""  # git's id of the files after the merge
    plan_hash: str = ""  # of the change that the merge brings; "": that of the plans themselves
    hashes: Mapping[tuple[str, str], str] = field(default_factory=dict)  # the same by stack and cluster
    remarks: tuple[str, ...] = ()


LIVE_HEADER = ViewHeader()


_WORST_FIRST = {EffectKind.DATA: 0, EffectKind.DELETE: 2}


class DestructiveStep(NamedTuple):
    """A destructive step, and its stack and cluster."""

    stack: str
    cluster: str
    step: Step

    @property
    def words(self) -> str:
        return effect_of(self.step).words


def destructive_steps(views: Iterable[PlanView]) -> list[DestructiveStep]:
    """Return every destructive step, those that take data with them first."""
    steps = [
        DestructiveStep(view.stack, view.cluster, step)
        for view in sorted(views, key=lambda view: (view.stack, view.cluster))
        for step in (view.plan.steps if view.plan else ())
        if effect_of(step).destructive
    ]
    return sorted(steps, key=lambda danger: _WORST_FIRST.get(effect_of(danger.step).does, 1))


def group_by_stack(views: Iterable[PlanView]) -> dict[str, list[PlanView]]:
    views_by_stack: dict[str, list[PlanView]] = {}
    for view in sorted(views, key=lambda view: (view.stack, view.cluster)):
        views_by_stack.setdefault(view.stack, []).append(view)
    return views_by_stack


def count_verbs(views: Iterable[PlanView]) -> Counter[Verb]:
    return Counter(step.verb for view in views if view.plan for step in view.plan.steps)


def summary_line(views: Iterable[PlanView]) -> str:
    """Return the plans in one line: "3 to create, 1 to update, 5 unchanged"."""
    views = list(views)
    counts = count_verbs(views)
    parts = [f"{counts[verb]} to {verb}" for verb in SUMMED_UP if counts[verb]]
    if counts[Verb.CONFLICT]:
        parts.append(f"{counts[Verb.CONFLICT]} in conflict")
    taken_over = sum(bool(view.taken_from) for view in views)
    if taken_over:
        parts.append(f"{taken_over} to take over")
    objections = sum(bool(step.objection) for view in views if view.plan for step in view.plan.steps)
    if objections:
        parts.append(f"{objections} refused by the server")
    failed = len({view.cluster for view in views if view.problem})
    if failed:
        parts.append(f"{count_noun(failed, 'cluster')} failed")
    if not parts:
        parts.append("no changes")
    if counts[Verb.UNCHANGED]:
        parts.append(f"{counts[Verb.UNCHANGED]} unchanged")
    return ", ".join(parts)


def short_value(value: Any, width: int = 60) -> str:
    """Return a value for a line of text."""

    return _cut_text(_value_text(value), width)


def short_values(before: Any, after: Any, width: int = 60) -> tuple[str, str]:
    """Return two values for a line of text: of long ones, the part where they begin to differ."""
    texts = _value_text(before), _value_text(after)
    common = len(commonprefix(texts))  # noqa: RUF071 - of texts
    if common < width - 1 or texts[0] == texts[1]:
        return _cut_text(texts[0], width), _cut_text(texts[1], width)
    begin = common - width // 3
    shown_before, shown_after = (_cut_text(f"…{text[begin:]}", width) for text in texts)
    return shown_before, shown_after


def _value_text(value: Any) -> str:
    return "(none)" if value is None else escape_line(escape_json(orjson.dumps(value).decode()))


def _cut_text(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
