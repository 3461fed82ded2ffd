"""What a preview says on a pull request: the parts of its comment, and the line of its commit status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.errors import FleetError
from fleet.forge.approval import command
from fleet.forge.model import State
from fleet.plan.forest import About, Branch, summary
from fleet.plan.markdown import comments
from fleet.plan.visible import fenced, in_markdown, lines
from fleet.preview.request import Request
from fleet.preview.voice import Voice
from fleet.printable import count_noun

MOST_PARTS = 5
LONGEST_PART = 200_000  # characters; some forges take more, and no browser shows it in reasonable time
MOST_LINES = 60  # of an error
LONGEST_LINE = 400


@dataclass(frozen=True, slots=True)
class Words:
    parts: tuple[str, ...]  # of the comment, in Markdown
    state: State
    line: str  # of the status


def made(
    branches: Sequence[Branch],
    about: About,
    problems: Sequence[FleetError],
    *,
    request: Request,
    voice: Voice,
    room: int,
) -> Words:
    """There is a preview, with or without problems in it."""
    parts = comments(
        branches,
        title=voice.title,
        about=about,
        limit=min(room, LONGEST_PART),
        most=MOST_PARTS,
        notes=_notes(request, voice),
    )
    if not problems:
        return Words(tuple(parts), State.SUCCESS, summary(branches))
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Words(tuple(parts), State.FAILURE, f"{lines(problems[0].message)[0]}{more}")


def refused(problem: FleetError, *, request: Request, voice: Voice) -> Words:
    """Return what is said where there is no preview: what is wrong, as the command line says it."""
    return describe_failure(str(problem), problem.message, request=request, voice=voice)


def describe_failure(text: str, reason: str, *, request: Request, voice: Voice) -> Words:
    """Return the same from text.

    Behind a bar: at the beginning of a line, some forges take a word for a command, even in a block of code.
    """
    said = [f"│ {line[:LONGEST_LINE]}" for line in lines(text)]
    shown = (
        said
        if len(said) <= MOST_LINES
        else [*said[:MOST_LINES], f"│ … and {count_noun(len(said) - MOST_LINES, 'more line')}"]
    )
    head = request.pull_request.head_sha[:8]
    body = [f"### {in_markdown(voice.title)}", "", f"**⚠️ there is no preview of {head}**", ""]
    for note in _notes(request, voice):
        body += [note, ""]
    return Words(("\n".join([*body, *fenced(shown, "text"), ""]),), State.FAILURE, lines(reason)[0])


def _notes(request: Request, voice: Voice) -> list[str]:
    said = [f"[All of it on one page](<{voice.page}>)"] if voice.page else []
    head = request.pull_request.head_sha
    if request.withheld:
        said.append(
            "This comes from a fork, so no cluster was asked. Whoever may write to this repository can have it "
            f"compared with the clusters by a comment that says `{command(head)}`; it holds for this commit alone."
        )
    if request.doubt:
        said.append(f"Somebody named this commit; whether they may could not be told: {in_markdown(request.doubt)}")
    if request.approver:
        by = in_markdown(request.approver)
        said.append(f"A fork's commit, compared with the clusters because {by} approved it.")
    return said
