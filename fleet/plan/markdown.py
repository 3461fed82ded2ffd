"""A plan for a pull request: GitHub-flavoured Markdown that stays readable, and inside a comment's size, when long."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.plan.digest import plan_hash
from fleet.plan.forest import Branch, by_stack, summary
from fleet.plan.step import Step
from fleet.plan.text import SIGNS, change_line

MOST_CHARACTERS = 60_000  # forges cut comments at 65,536


def markdown(branches: Iterable[Branch], *, title: str = "fleet preview") -> str:
    branches = list(branches)
    lines = [f"### {title}", "", f"**{summary(branches)}**", ""]
    for stack, its in by_stack(branches).items():
        for branch in its:
            lines += _branch(stack, branch)
    text = "\n".join(lines)
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS].rpartition("\n")[0]
        # A fence cut in two would swallow what follows.
        text += "\n```" if text.count("```") % 2 else ""
        text += "\n\n_…cut; `fleet preview` shows all of it._\n"
    digest = plan_hash(branch.plan for branch in branches if branch.plan)
    return f"{text}\n<sub>plan {digest[:12]}</sub>\n"


def _branch(stack: str, branch: Branch) -> list[str]:
    steps = branch.steps()
    if branch.problem:
        return [f"**{stack}** on **{branch.cluster}**: ⚠️ {_plain(branch.problem.splitlines()[0])}", ""]
    if not steps and not branch.taken_from:
        return [f"**{stack}** on **{branch.cluster}**: no changes", ""]
    head = f"<details open><summary><b>{stack}</b> on <b>{branch.cluster}</b>: {summary([branch])}</summary>"
    taken = [f"! taken over from {branch.taken_from}"] if branch.taken_from else []
    return [head, "", "```diff", *taken, *(line for step in steps for line in _step(step)), "```", "</details>", ""]


def _step(step: Step) -> list[str]:
    sign = SIGNS[step.verb][0]
    mark = {"~": "!", "»": "+", "«": "-", "=": " ", "≡": "!"}.get(sign, sign)
    lines = [f"{mark} {step.verb} {step.key}" + (f"  ({step.source})" if step.source.file else "")]
    lines += [f"    {text}" for text in (step.reason, *step.meanings) if text]
    lines += [f"    {change_line(change)}" for change in step.changes]
    return [line.replace("```", "'''").replace("\n", " ") for line in lines]


def _plain(text: str) -> str:
    """Text of others inside Markdown: no markup, no mentions."""
    for letter in "\\`*_{}[]<>|":
        text = text.replace(letter, f"\\{letter}")
    return text.replace("@", "@\u200b")
