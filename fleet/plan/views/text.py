"""Plans for users at a terminal: what is destructive, the tree stack → cluster → object, one line that sums it up."""

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
    NamedRevision,
    PlanView,
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
    views: Iterable[PlanView],
    *,
    colour: bool = False,
    unchanged: bool = False,
    width: int | None = None,
    about: ViewHeader = LIVE_HEADER,
) -> str:
    """Return the plans as lines of text.

    `width` is the terminal's: longer lines go on below themselves; without one, none is too long.
    """
    views = list(views)
    view = _TextView(colour, unchanged, None if width is None else max(width, NARROWEST))
    lines = [*view.dangers(views), *view.about(about)]
    for stack, stack_views in group_by_stack(views).items():
        lines += view.fit("", escape_line(stack), BOLD)
        for position, plan_view in enumerate(stack_views):
            lines += view.branch(plan_view, last=position == len(stack_views) - 1)
    if lines:
        lines.append("")
    return "\n".join([*lines, *view.fit("", summary_line(views), BOLD)])


def paint(text: str, code: int, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


class _TextView:
    def __init__(self, colour: bool, unchanged: bool, width: int | None) -> None:
        self._colour, self._unchanged, self._width = colour, unchanged, width

    def fit(self, margin: str, text: str, code: int = 0, *, following: str | None = None) -> list[str]:
        """Return a text behind a margin, on as many lines as it needs; further ones stand behind `following`."""
        below = margin if following is None else following
        if self._width is None or len(margin) + len(text) <= self._width:
            return [margin + self._paint(text, code)]
        first, rest = " " * len(margin), " " * len(below)
        width = max(self._width, len(margin) + NARROWEST // 2)
        parts = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
        painted_parts = [
            self._paint(part[len(indent) :], code)
            for part, indent in zip(parts, [first, *[rest] * (len(parts) - 1)], strict=True)
        ]
        return [margin + painted_parts[0], *(below + part for part in painted_parts[1:])]

    def dangers(self, views: Sequence[PlanView]) -> list[str]:
        dangerous = destructive_steps(views)
        if not dangerous:
            return []
        text_lines = self.fit("", count_noun(len(dangerous), "destructive change"), RED)
        for danger in dangerous[:MOST_DANGERS]:
            where = f"{escape_line(danger.stack)} on {escape_line(danger.cluster)}: "
            what = f"{SIGNS[danger.step.verb][0]} {danger.step.verb} {escape_line(str(danger.step.key))}"
            more = "" if effect_of(danger.step).does is EffectKind.DELETE else f" ({escape_line(danger.words)})"
            text_lines += self.fit("  ", where + what + more, following="    ")
        if len(dangerous) > MOST_DANGERS:
            text_lines += self.fit("  ", f"… and {len(dangerous) - MOST_DANGERS} more", DIM)
        return [*text_lines, ""]

    def about(self, about: ViewHeader) -> list[str]:
        if not about.base or not about.head:
            return []
        base, head = about.base, about.head
        how = "and the clusters" if about.depth == "live" else "no cluster asked"
        text = f"{_revision_text(head)} merged into {_revision_text(base)}, {how}"
        return [*self.fit("", text, DIM), ""]

    def branch(self, view: PlanView, *, last: bool) -> list[str]:
        corner, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        steps = view.steps(unchanged=self._unchanged)
        text_lines = self._head(view, corner, below, empty=not steps)
        hidden, steps = len(steps) - MOST_STEPS, steps[:MOST_STEPS]
        width = max((len(escape_line(str(step.key))) for step in steps), default=0)
        for position, step in enumerate(steps):
            end = position == len(steps) - 1 and hidden <= 0
            margin = below + ("   " if end else "│  ")
            text_lines += self._line(step, width, below + ("└─ " if end else "├─ "), margin)
            text_lines += self._details(step, margin + ("             " if self._is_wide(margin) else "  "))
        return [*text_lines, below + "└─ " + self._paint(f"… and {hidden} more", DIM)] if hidden > 0 else text_lines

    def _head(self, view: PlanView, corner: str, below: str, *, empty: bool) -> list[str]:
        cluster = escape_line(view.cluster)
        if view.problem:
            first, *more = escape_lines(view.problem)
            text_lines = self.fit(f"{corner}{cluster}  ", f"failed: {first}", RED, following=below)
            return [*text_lines, *(part for line in more for part in self.fit(below, line))]
        if view.note:
            return self.fit(f"{corner}{cluster}  ", escape_line(view.note), YELLOW, following=below)
        if view.taken_from:
            takeover = f"taken over from {escape_line(view.taken_from)}"
            return self.fit(f"{corner}{cluster}  ", takeover, YELLOW, following=below)
        return [f"{corner}{cluster}" + (self._paint("  no changes", DIM) if empty else "")]

    def _line(self, step: Step, width: int, corner: str, margin: str) -> list[str]:
        sign, code = SIGNS[step.verb]
        key = escape_line(str(step.key))
        where = escape_line(str(step.source)) if step.source.file and step.verb is not Verb.UNCHANGED else ""
        verb = f"{sign} {step.verb:<9}"
        line = f"{corner}{self._paint(verb, code)}  "
        if self._width is None or len(corner) + len(verb) + 2 + width + 2 + len(where) <= self._width:
            return [f"{line}{key:<{width}}  {self._paint(where, DIM) if where else ''}".rstrip()]
        indent = margin + "  "
        if len(corner) + len(verb) + 2 + len(key) <= self._width:
            text_lines = [f"{line}{key}"]
        else:
            text_lines = [f"{corner}{self._paint(verb.rstrip(), code)}", *self.fit(indent, key)]
        return [*text_lines, *(self.fit(indent, where, DIM) if where else ())]

    def _details(self, step: Step, margin: str) -> list[str]:
        notes = [(step.reason, SIGNS[step.verb][1])] if step.reason else []
        notes += [(f"the server refuses it: {step.objection}", RED)] if step.objection else []
        notes += [(meaning, BOLD) for meaning in step.meanings]
        if effect_note := effect_text(step):
            notes.append((effect_note, RED if effect_of(step).destructive else BOLD))
        parts = [part for text, code in notes for line in escape_lines(text) for part in self.fit(margin, line, code)]
        for change in step.changes[:MOST_CHANGES]:
            parts += self.fit(margin, change_line(change), following=margin + "  ")
        hidden = len(step.changes) - MOST_CHANGES
        return [*parts, margin + self._paint(f"… and {count_noun(hidden, 'more field')}", DIM)] if hidden > 0 else parts

    def _is_wide(self, margin: str) -> bool:
        return self._width is None or self._width - len(margin) >= 60

    def _paint(self, text: str, code: int) -> str:
        return paint(text, code, self._colour and bool(code))


def _revision_text(side: NamedRevision) -> str:
    return f"{escape_line(side.name)} ({escape_line(side.commit[:8])})"


def effect_text(step: Step) -> str:
    """Return what a step does to users, where neither its verb nor what it means for an app has said so already."""
    effect = step.effect
    return "" if effect is None else effect.note if step.meanings else effect.words


def change_line(change: Change) -> str:
    path = escape_line(change.path)
    if REDACTED in (change.before, change.after):
        verb = "added" if change.before is None else "removed" if change.after is None else "changed"
        return f"{path}: {REDACTED} {verb}"
    if change.after is None:
        return f"{path}: {short_value(change.before)} removed"
    if change.before is None:
        return f"{path}: {short_value(change.after)} added"
    return f"{path}: {' → '.join(short_values(change.before, change.after))}"
