"""Plans for a pull request: GitHub-flavoured Markdown, as one comment or as several, each inside a forge's limit.

What is destructive and the table that sums it up stand outside any fold and are never cut; the rest folds by stack and
cluster and is cut between objects, never inside one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.plan.effect import effect_of
from fleet.plan.step import Step, Verb, plan_hash
from fleet.plan.views.escape import escape_html, escape_line, escape_lines, escape_markdown, fence_code
from fleet.plan.views.summary import LIVE_HEADER, PlanView, ViewHeader, count_verbs, destructive_steps, summary_line
from fleet.plan.views.text import SIGNS, change_line, effect_text
from fleet.text import count_noun

MOST_CHARACTERS = 60_000  # forges cut comments at 65,536
MOST_ROWS = 100
MOST_DANGERS = 50
MOST_REMARKS = 100
MOST_LINES = 40  # of one object: an object is never longer than a comment
LONGEST_LINE = 400
_MARKS = {"~": "!", "»": "+", "«": "-", "=": " ", "≡": "!"}
_COLUMNS = (Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.DELETE, Verb.FORGET, Verb.RECORD, Verb.CONFLICT)
Part = tuple[PlanView, tuple[Step, ...]]


def markdown_comment(
    views: Iterable[PlanView],
    *,
    title: str = "fleet preview",
    about: ViewHeader = LIVE_HEADER,
    limit: int = MOST_CHARACTERS,
) -> str:
    """Return one comment. What does not fit is left out object by object, from the end, and counted."""
    return markdown_comments(views, title=title, about=about, limit=limit, most=1)[0]


def markdown_comments(
    views: Iterable[PlanView],
    *,
    title: str = "fleet preview",
    about: ViewHeader = LIVE_HEADER,
    limit: int = MOST_CHARACTERS,
    most: int | None = None,
    notes: Sequence[str] = (),
) -> list[str]:
    """Return the plans in as many comments as it takes; each says which it is, and the first has the summary.

    With `most`, what does not fit into so many is left out object by object and counted. `notes` are our own Markdown,
    which stands below the summary.
    """
    views = list(views)
    pieces = _list_steps(views)
    written: list[str] = []
    foot = _comment_foot(views, about)
    head = _fit_head(views, title, about, notes, limit - len(foot) - 200)
    while pieces or not written:
        top = head if not written else f"### {escape_markdown(title)}, continued ({len(written) + 1})\n"
        parts, left = _take_fitting(pieces, limit - len(top) - len(foot) - 200, at_least=1 if written else 0)
        pieces = pieces[len(pieces) - left :]
        cut = _cut_notice(left) if most is not None and len(written) + 1 >= most else []
        written.append("\n".join([top, *(_fold_part(part) for part in parts), *cut, foot]))
        if cut:
            break
    return written


def _cut_notice(left: int) -> list[str]:
    return [f"_…and {count_noun(left, 'more object')}; `fleet preview` shows all._", ""] if left else []


def _fit_head(views: Sequence[PlanView], title: str, about: ViewHeader, notes: Sequence[str], room: int) -> str:
    """Return the first comment's head, with as much of the lists as there is room for: foreign names may be long, and
    the summary must be in it.
    """
    for share in (1, 2, 4, 8, 16, 32):
        head = _comment_head(views, title, about, notes, share)
        if len(head) <= room:
            break
    return head


def _comment_head(views: Sequence[PlanView], title: str, about: ViewHeader, notes: Sequence[str], share: int) -> str:
    head_lines = [f"### {escape_markdown(title)}", "", f"**{summary_line(views)}**", ""]
    if about.base and about.head:
        how = "compared with the clusters" if about.depth == "live" else "git against git, no cluster asked"
        base, head = (
            f"{escape_markdown(revision.name)} ({escape_markdown(revision.commit[:8])})"
            for revision in (about.base, about.head)
        )
        head_lines += [f"{head} merged into {base}; {how}.", ""]
    for note in notes:
        head_lines += [note, ""]
    head_lines += _destructive_list(views, MOST_DANGERS // share)
    head_lines += _plan_table(views, MOST_ROWS // share)
    most = MOST_REMARKS // share
    head_lines += [f"- {escape_markdown(remark[:LONGEST_LINE])}" for remark in about.remarks[:most]]
    head_lines += [f"- … and {len(about.remarks) - most} more"] if len(about.remarks) > most else []
    return "\n".join([*head_lines, ""] if about.remarks else head_lines)


def _destructive_list(views: Sequence[PlanView], most: int) -> list[str]:
    dangerous = destructive_steps(views)
    if not dangerous:
        return []
    list_lines = [f"**⚠️ {count_noun(len(dangerous), 'destructive change')}**", ""]
    for danger in dangerous[:most]:
        where = f"{escape_markdown(danger.stack)} on {escape_markdown(danger.cluster)}"
        list_lines.append(f"- {where}: **{escape_markdown(danger.words)}** {escape_markdown(str(danger.step.key))}")
    if len(dangerous) > most:
        list_lines.append(f"- … and {len(dangerous) - most} more")
    return [*list_lines, ""]


def _plan_table(views: Sequence[PlanView], most: int) -> list[str]:
    ordered_views = sorted(views, key=lambda view: (not view.problem, not view.steps(), view.stack, view.cluster))
    columns = [verb for verb in _COLUMNS if count_verbs(views)[verb]]
    if not ordered_views:
        return []
    head = ["stack", "cluster", *(verb.value for verb in columns), "outcome"]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for view in ordered_views[:most]:
        counts = count_verbs([view])
        numbers = [str(counts[verb]) if counts[verb] else "" for verb in columns]
        cells = [escape_markdown(view.stack), escape_markdown(view.cluster), *numbers, _plan_outcome(view)]
        rows.append(f"| {' | '.join(cells)} |")
    if len(ordered_views) > most:
        rows.append(f"| … and {len(ordered_views) - most} more |{' |' * (len(head) - 1)}")
    return [*rows, ""]


def _plan_outcome(view: PlanView) -> str:
    if view.problem:
        return f"⚠️ {escape_markdown(escape_lines(view.problem)[0][:LONGEST_LINE])}"
    if view.note:
        return escape_markdown(view.note)
    if view.taken_from:
        return f"taken over from {escape_markdown(view.taken_from)}"
    refused = sum(bool(step.objection) for step in view.steps())
    if refused:
        return f"⚠️ {refused} refused by the server"
    texts = dict.fromkeys(effect_of(step).words for step in view.steps() if step.effect)
    effects_text = "; ".join(escape_markdown(effect_words) for effect_words in list(texts)[:3])
    return effects_text or ("" if view.steps() else "no changes")


def _list_steps(views: Sequence[PlanView]) -> list[tuple[PlanView, Step]]:
    """Return what is folded, object by object, destructive ones first in each cluster."""
    ordered = sorted(views, key=lambda item: (item.stack, item.cluster))
    return [
        (view, step)
        for view in ordered
        for step in sorted(view.steps(), key=lambda item: not effect_of(item).destructive)
    ]


def _take_fitting(pieces: Sequence[tuple[PlanView, Step]], room: int, *, at_least: int) -> tuple[list[Part], int]:
    """Return as many objects as there is room for, together by stack and cluster, and how many are left."""
    parts: list[tuple[PlanView, list[Step]]] = []
    used = taken_steps = 0
    for view, step in pieces:
        size = sum(len(line) + 1 for line in _step_lines(step))
        if not parts or parts[-1][0] is not view:
            size += len(_fold_part((view, ()))) + 20
        if used + size > room and taken_steps >= at_least:
            break
        if not parts or parts[-1][0] is not view:
            parts.append((view, []))
        parts[-1][1].append(step)
        used, taken_steps = used + size, taken_steps + 1
    return [(view, tuple(steps)) for view, steps in parts], len(pieces) - taken_steps


def _fold_part(part: Part) -> str:
    view, steps = part
    place = f"<b>{escape_html(view.stack)}</b> on <b>{escape_html(view.cluster)}</b>"
    title = f"{place}: {escape_html(summary_line([view]))}"
    body = fence_code([line for step in steps for line in _step_lines(step)], "diff")
    return "\n".join([f"<details><summary>{title}</summary>", "", *body, "</details>", ""])


def _step_lines(step: Step) -> list[str]:
    sign = SIGNS[step.verb][0]
    place = f"  ({escape_line(str(step.source))})" if step.source.file else ""
    step_lines = [f"{_MARKS.get(sign, sign)} {step.verb} {escape_line(str(step.key))}{place}"]
    notes = [step.reason, f"the server refuses it: {step.objection}" if step.objection else "", *step.meanings]
    notes.append(effect_text(step))
    step_lines += [f"    {line}" for text in notes if text for line in escape_lines(text)]
    step_lines += [f"    {change_line(change)}" for change in step.changes]
    hidden = len(step_lines) - MOST_LINES
    step_lines = (
        [*step_lines[:MOST_LINES], f"    … and {count_noun(hidden, 'more line')}"] if hidden > 0 else step_lines
    )
    return [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in step_lines]


def _comment_foot(views: Sequence[PlanView], about: ViewHeader) -> str:
    digest = about.plan_hash or plan_hash(view.plan for view in views if view.plan)
    return f"<sub>plan {digest[:12]}</sub>\n"
