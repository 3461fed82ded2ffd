"""A plan for people at a terminal: what is destructive, the tree stack → cluster → object, one line that sums it up."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from fleet.objects.compare import Change
from fleet.objects.redaction import REDACTED
from fleet.plan.effect import EffectKind, effect_of
from fleet.plan.step import Step, Verb
from fleet.plan.views.escape import escape_line, escape_lines
from fleet.plan.views.summary import (
    LIVE_HEADER,
    PlanView,
    Revision,
    ViewHeader,
    destructive_steps,
    group_by_stack,
    short_value,
    short_values,
    summary_line,
)
from fleet.text import count_noun

SIGNS = {
    Verb.CREATE: ("+", 32),
    Verb.UPDATE: ("~", 33),
    Verb.ADOPT: ("»", 36),
    Verb.DELETE: ("-", 31),
    Verb.FORGET: ("«", 35),
    Verb.CONFLICT: ("!", 31),
    Verb.RECORD: ("≡", 33),
    Verb.UNCHANGED: ("=", 2),
}
BOLD, DIM, RED, YELLOW = 1, 2, 31, 33
MOST_CHANGES = 12
MOST_STEPS = 200  # of one stack in one cluster; all are in the JSON
MOST_DANGERS = 50
NARROWEST = 40


def text_tree(
    branches: Iterable[PlanView],
    *,
    colour: bool = False,
    unchanged: bool = False,
    width: int | None = None,
    about: ViewHeader = LIVE_HEADER,
) -> str:
    """`width` is the terminal's: longer lines go on below themselves; without one, none is too long."""
    branches = list(branches)
    view = _TextView(colour, unchanged, None if width is None else max(width, NARROWEST))
    said = [*view.dangers(branches), *view.about(about)]
    for stack, its in group_by_stack(branches).items():
        said += view.fitted("", escape_line(stack), BOLD)
        for position, branch in enumerate(its):
            said += view.branch(branch, last=position == len(its) - 1)
    if said:
        said.append("")
    return "\n".join([*said, *view.fitted("", summary_line(branches), BOLD)])


def paint(text: str, code: int, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


class _TextView:
    def __init__(self, colour: bool, unchanged: bool, width: int | None) -> None:
        self._colour, self._unchanged, self._width = colour, unchanged, width

    def fitted(self, margin: str, text: str, code: int = 0, *, following: str | None = None) -> list[str]:
        """A text behind a margin, on as many lines as it needs; further ones stand behind `following`."""
        below = margin if following is None else following
        if self._width is None or len(margin) + len(text) <= self._width:
            return [margin + self._painted(text, code)]
        first, rest = " " * len(margin), " " * len(below)
        width = max(self._width, len(margin) + NARROWEST // 2)
        parts = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
        said = [
            self._painted(part[len(indent) :], code)
            for part, indent in zip(parts, [first, *[rest] * (len(parts) - 1)], strict=True)
        ]
        return [margin + said[0], *(below + part for part in said[1:])]

    def dangers(self, branches: Sequence[PlanView]) -> list[str]:
        found = destructive_steps(branches)
        if not found:
            return []
        said = self.fitted("", count_noun(len(found), "destructive change"), RED)
        for one in found[:MOST_DANGERS]:
            where = f"{escape_line(one.stack)} on {escape_line(one.cluster)}: "
            what = f"{SIGNS[one.step.verb][0]} {one.step.verb} {escape_line(str(one.step.key))}"
            more = "" if effect_of(one.step).does is EffectKind.DELETE else f" ({escape_line(one.words)})"
            said += self.fitted("  ", where + what + more, following="    ")
        if len(found) > MOST_DANGERS:
            said += self.fitted("  ", f"… and {len(found) - MOST_DANGERS} more", DIM)
        return [*said, ""]

    def about(self, about: ViewHeader) -> list[str]:
        if not about.base or not about.head:
            return []
        base, head = about.base, about.head
        how = "and the clusters" if about.depth == "live" else "no cluster asked"
        text = f"{_revision_text(head)} merged into {_revision_text(base)}, {how}"
        return [*self.fitted("", text, DIM), ""]

    def branch(self, branch: PlanView, *, last: bool) -> list[str]:
        corner, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        steps = branch.steps(unchanged=self._unchanged)
        said = self._head(branch, corner, below, empty=not steps)
        hidden, steps = len(steps) - MOST_STEPS, steps[:MOST_STEPS]
        width = max((len(escape_line(str(step.key))) for step in steps), default=0)
        for position, step in enumerate(steps):
            end = position == len(steps) - 1 and hidden <= 0
            margin = below + ("   " if end else "│  ")
            said += self._line(step, width, below + ("└─ " if end else "├─ "), margin)
            said += self._details(step, margin + ("             " if self._is_wide(margin) else "  "))
        return [*said, below + "└─ " + self._painted(f"… and {hidden} more", DIM)] if hidden > 0 else said

    def _head(self, branch: PlanView, corner: str, below: str, *, empty: bool) -> list[str]:
        cluster = escape_line(branch.cluster)
        if branch.problem:
            first, *more = escape_lines(branch.problem)
            said = self.fitted(f"{corner}{cluster}  ", f"failed: {first}", RED, following=below)
            return [*said, *(part for line in more for part in self.fitted(below, line))]
        if branch.note:
            return self.fitted(f"{corner}{cluster}  ", escape_line(branch.note), YELLOW, following=below)
        if branch.taken_from:
            taken = f"taken over from {escape_line(branch.taken_from)}"
            return self.fitted(f"{corner}{cluster}  ", taken, YELLOW, following=below)
        return [f"{corner}{cluster}" + (self._painted("  no changes", DIM) if empty else "")]

    def _line(self, step: Step, width: int, corner: str, margin: str) -> list[str]:
        sign, code = SIGNS[step.verb]
        key = escape_line(str(step.key))
        where = escape_line(str(step.source)) if step.source.file and step.verb is not Verb.UNCHANGED else ""
        verb = f"{sign} {step.verb:<9}"
        line = f"{corner}{self._painted(verb, code)}  "
        if self._width is None or len(corner) + len(verb) + 2 + width + 2 + len(where) <= self._width:
            return [f"{line}{key:<{width}}  {self._painted(where, DIM) if where else ''}".rstrip()]
        short = margin + "  "
        if len(corner) + len(verb) + 2 + len(key) <= self._width:
            said = [f"{line}{key}"]
        else:
            said = [f"{corner}{self._painted(verb.rstrip(), code)}", *self.fitted(short, key)]
        return [*said, *(self.fitted(short, where, DIM) if where else ())]

    def _details(self, step: Step, margin: str) -> list[str]:
        said = [(step.reason, SIGNS[step.verb][1])] if step.reason else []
        said += [(f"the server refuses it: {step.objection}", RED)] if step.objection else []
        said += [(meaning, BOLD) for meaning in step.meanings]
        if told := effect_text(step):
            said.append((told, RED if effect_of(step).destructive else BOLD))
        parts = [part for text, code in said for line in escape_lines(text) for part in self.fitted(margin, line, code)]
        for change in step.changes[:MOST_CHANGES]:
            parts += self.fitted(margin, change_line(change), following=margin + "  ")
        hidden = len(step.changes) - MOST_CHANGES
        return (
            [*parts, margin + self._painted(f"… and {count_noun(hidden, 'more field')}", DIM)] if hidden > 0 else parts
        )

    def _is_wide(self, margin: str) -> bool:
        return self._width is None or self._width - len(margin) >= 60

    def _painted(self, text: str, code: int) -> str:
        return paint(text, code, self._colour and bool(code))


def _revision_text(side: Revision) -> str:
    return f"{escape_line(side.name)} ({escape_line(side.commit[:8])})"


def effect_text(step: Step) -> str:
    """What it does to users, where neither its verb nor what it means for an app has said so already."""
    effect = step.effect
    return "" if effect is None else effect.note if step.meanings else effect.words


def change_line(change: Change) -> str:
    path = escape_line(change.path)
    if REDACTED in (change.before, change.after):
        word = "added" if change.before is None else "removed" if change.after is None else "changed"
        return f"{path}: {REDACTED} {word}"
    if change.after is None:
        return f"{path}: {short_value(change.before)} removed"
    if change.before is None:
        return f"{path}: {short_value(change.after)} added"
    return f"{path}: {' → '.join(short_values(change.before, change.after))}"
