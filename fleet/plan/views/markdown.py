"""A plan for a pull request: GitHub-flavoured Markdown, as one comment or as several, each inside a forge's limit.

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
    branches: Iterable[PlanView],
    *,
    title: str = "fleet preview",
    about: ViewHeader = LIVE_HEADER,
    limit: int = MOST_CHARACTERS,
) -> str:
    """One comment. What does not fit is left out object by object, from the end, and counted."""
    return markdown_comments(branches, title=title, about=about, limit=limit, most=1)[0]


def markdown_comments(
    branches: Iterable[PlanView],
    *,
    title: str = "fleet preview",
    about: ViewHeader = LIVE_HEADER,
    limit: int = MOST_CHARACTERS,
    most: int | None = None,
    notes: Sequence[str] = (),
) -> list[str]:
    """All of it in as many comments as it takes; each says which it is, and the first has the summary.

    With `most`, what does not fit into so many is left out object by object and counted. `notes` are our own Markdown,
    which stands below the summary.
    """
    branches = list(branches)
    pieces = _list_steps(branches)
    made: list[str] = []
    foot = _comment_foot(branches, about)
    head = _fit_head(branches, title, about, notes, limit - len(foot) - 200)
    while pieces or not made:
        top = head if not made else f"### {escape_markdown(title)}, continued ({len(made) + 1})\n"
        parts, left = _take_fitting(pieces, limit - len(top) - len(foot) - 200, at_least=1 if made else 0)
        pieces = pieces[len(pieces) - left :]
        cut = _cut_notice(left) if most is not None and len(made) + 1 >= most else []
        made.append("\n".join([top, *(_fold_part(part) for part in parts), *cut, foot]))
        if cut:
            break
    return made


def _cut_notice(left: int) -> list[str]:
    return [f"_…and {count_noun(left, 'more object')}; `fleet preview` shows all._", ""] if left else []


def _fit_head(branches: Sequence[PlanView], title: str, about: ViewHeader, notes: Sequence[str], room: int) -> str:
    """With as much of the lists as there is room for: names of others may be long, and the summary must be there."""
    for share in (1, 2, 4, 8, 16, 32):
        head = _comment_head(branches, title, about, notes, share)
        if len(head) <= room:
            break
    return head


def _comment_head(branches: Sequence[PlanView], title: str, about: ViewHeader, notes: Sequence[str], share: int) -> str:
    said = [f"### {escape_markdown(title)}", "", f"**{summary_line(branches)}**", ""]
    if about.base and about.head:
        how = "compared with the clusters" if about.depth == "live" else "git against git, no cluster asked"
        base, head = (
            f"{escape_markdown(one.name)} ({escape_markdown(one.commit[:8])})" for one in (about.base, about.head)
        )
        said += [f"{head} merged into {base}; {how}.", ""]
    for note in notes:
        said += [note, ""]
    said += _destructive_list(branches, MOST_DANGERS // share)
    said += _plan_table(branches, MOST_ROWS // share)
    most = MOST_REMARKS // share
    said += [f"- {escape_markdown(remark[:LONGEST_LINE])}" for remark in about.remarks[:most]]
    said += [f"- … and {len(about.remarks) - most} more"] if len(about.remarks) > most else []
    return "\n".join([*said, ""] if about.remarks else said)


def _destructive_list(branches: Sequence[PlanView], most: int) -> list[str]:
    found = destructive_steps(branches)
    if not found:
        return []
    said = [f"**⚠️ {count_noun(len(found), 'destructive change')}**", ""]
    for one in found[:most]:
        where = f"{escape_markdown(one.stack)} on {escape_markdown(one.cluster)}"
        said.append(f"- {where}: **{escape_markdown(one.words)}** {escape_markdown(str(one.step.key))}")
    if len(found) > most:
        said.append(f"- … and {len(found) - most} more")
    return [*said, ""]


def _plan_table(branches: Sequence[PlanView], most: int) -> list[str]:
    shown = sorted(branches, key=lambda one: (not one.problem, not one.steps(), one.stack, one.cluster))
    columns = [verb for verb in _COLUMNS if count_verbs(branches)[verb]]
    if not shown:
        return []
    head = ["stack", "cluster", *(verb.value for verb in columns), "outcome"]
    said = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for branch in shown[:most]:
        counts = count_verbs([branch])
        numbers = [str(counts[verb]) if counts[verb] else "" for verb in columns]
        cells = [escape_markdown(branch.stack), escape_markdown(branch.cluster), *numbers, _plan_outcome(branch)]
        said.append(f"| {' | '.join(cells)} |")
    if len(shown) > most:
        said.append(f"| … and {len(shown) - most} more |{' |' * (len(head) - 1)}")
    return [*said, ""]


def _plan_outcome(branch: PlanView) -> str:
    if branch.problem:
        return f"⚠️ {escape_markdown(escape_lines(branch.problem)[0][:LONGEST_LINE])}"
    if branch.note:
        return escape_markdown(branch.note)
    if branch.taken_from:
        return f"taken over from {escape_markdown(branch.taken_from)}"
    refused = sum(bool(step.objection) for step in branch.steps())
    if refused:
        return f"⚠️ {refused} refused by the server"
    words = dict.fromkeys(effect_of(step).words for step in branch.steps() if step.effect)
    told = "; ".join(escape_markdown(one) for one in list(words)[:3])
    return told or ("" if branch.steps() else "no changes")


def _list_steps(branches: Sequence[PlanView]) -> list[tuple[PlanView, Step]]:
    """What is folded, object by object, destructive ones first in each cluster."""
    ordered = sorted(branches, key=lambda one: (one.stack, one.cluster))
    return [
        (branch, step)
        for branch in ordered
        for step in sorted(branch.steps(), key=lambda one: not effect_of(one).destructive)
    ]


def _take_fitting(pieces: Sequence[tuple[PlanView, Step]], room: int, *, at_least: int) -> tuple[list[Part], int]:
    """As many objects as there is room for, together by stack and cluster, and how many are left."""
    parts: list[tuple[PlanView, list[Step]]] = []
    used = taken = 0
    for branch, step in pieces:
        size = sum(len(line) + 1 for line in _step_lines(step))
        if not parts or parts[-1][0] is not branch:
            size += len(_fold_part((branch, ()))) + 20
        if used + size > room and taken >= at_least:
            break
        if not parts or parts[-1][0] is not branch:
            parts.append((branch, []))
        parts[-1][1].append(step)
        used, taken = used + size, taken + 1
    return [(branch, tuple(steps)) for branch, steps in parts], len(pieces) - taken


def _fold_part(part: Part) -> str:
    branch, steps = part
    place = f"<b>{escape_html(branch.stack)}</b> on <b>{escape_html(branch.cluster)}</b>"
    title = f"{place}: {escape_html(summary_line([branch]))}"
    body = fence_code([line for step in steps for line in _step_lines(step)], "diff")
    return "\n".join([f"<details><summary>{title}</summary>", "", *body, "</details>", ""])


def _step_lines(step: Step) -> list[str]:
    sign = SIGNS[step.verb][0]
    place = f"  ({escape_line(str(step.source))})" if step.source.file else ""
    said = [f"{_MARKS.get(sign, sign)} {step.verb} {escape_line(str(step.key))}{place}"]
    told = [step.reason, f"the server refuses it: {step.objection}" if step.objection else "", *step.meanings]
    told.append(effect_text(step))
    said += [f"    {line}" for text in told if text for line in escape_lines(text)]
    said += [f"    {change_line(change)}" for change in step.changes]
    hidden = len(said) - MOST_LINES
    said = [*said[:MOST_LINES], f"    … and {count_noun(hidden, 'more line')}"] if hidden > 0 else said
    return [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in said]


def _comment_foot(branches: Sequence[PlanView], about: ViewHeader) -> str:
    digest = about.plan_hash or plan_hash(branch.plan for branch in branches if branch.plan)
    return f"<sub>plan {digest[:12]}</sub>\n"
