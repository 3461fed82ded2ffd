"""The preview on its pull request.

As whom a preview speaks on a forge: one repository may hold several fleets, and each has its comment and status.

A pull request that is to be previewed: what it is, and how deep one may look for it.

Whoever can open a pull request from a fork is nobody's colleague yet. Its code is evaluated in the sandbox, as that of
any head is, and no cluster is asked for it until somebody who may write to the repository names that very commit.

What a preview says on a pull request: the parts of its comment, and the line of its commit status. Pure.

A preview on its pull request: a commit status from beginning to end, and one comment that is edited in place.

What cannot be posted is an error: a preview that nobody sees is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from fleet.errors import ConfigurationError, FleetError
from fleet.forge.comments import Topic, approval, command, post
from fleet.forge.forge import Forge, PullRequest, State
from fleet.plan.views.escape import escape_lines, escape_markdown, fence_code
from fleet.plan.views.markdown import markdown_comments
from fleet.plan.views.summary import PlanView, ViewHeader, summary_line
from fleet.text import count_noun

CONTEXT = "fleet/preview"


@dataclass(frozen=True, slots=True)
class Voice:
    below: str = ""  # the fleet's directory in the repository; "" for its root
    page: str = ""  # an address for people, with all of it

    @property
    def context(self) -> str:
        """The name of the commit status."""
        return f"{CONTEXT}/{self.below}" if self.below else CONTEXT

    @property
    def title(self) -> str:
        return f"fleet preview of {self.below}" if self.below else "fleet preview"

    @property
    def topic(self) -> Topic:
        return Topic("preview", self.below)


@dataclass(frozen=True, slots=True)
class Request:
    pull_request: PullRequest
    live: bool = False  # the clusters may be asked
    withheld: bool = False  # they would have been, if this commit of a fork were approved
    approver: str = ""  # of this commit of a fork
    doubt: str = ""  # why it could not be told whether it is approved


async def consult(forge: Forge, number: int, *, live: bool = False) -> Request:
    """What the forge says about it now. One that is not open is refused: it will not be merged."""
    found = await forge.pull_request(number)
    if not found.is_open:
        raise ConfigurationError(
            f"pull request {number} of {forge.repository.path} is {'merged' if found.merged else 'closed'}",
            hint="previews are for open ones; reopen it first",
        )
    if not live or not found.fork:
        return Request(found, live)
    word = await approval(forge, number, found.head_sha)
    return Request(found, live=bool(word.by), withheld=not word.by, approver=word.by, doubt=word.doubt)


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
    branches: Sequence[PlanView],
    about: ViewHeader,
    problems: Sequence[FleetError],
    *,
    request: Request,
    voice: Voice,
    room: int,
) -> Words:
    """There is a preview, with or without problems in it."""
    parts = markdown_comments(
        branches,
        title=voice.title,
        about=about,
        limit=min(room, LONGEST_PART),
        most=MOST_PARTS,
        notes=_notes(request, voice),
    )
    if not problems:
        return Words(tuple(parts), State.SUCCESS, summary_line(branches))
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Words(tuple(parts), State.FAILURE, f"{escape_lines(problems[0].message)[0]}{more}")


def refused(problem: FleetError, *, request: Request, voice: Voice) -> Words:
    """Return what is said where there is no preview: what is wrong, as the command line says it."""
    return describe_failure(str(problem), problem.message, request=request, voice=voice)


def describe_failure(text: str, reason: str, *, request: Request, voice: Voice) -> Words:
    """Return the same from text.

    Behind a bar: at the beginning of a line, some forges take a word for a command, even in a block of code.
    """
    said = [f"│ {line[:LONGEST_LINE]}" for line in escape_lines(text)]
    shown = (
        said
        if len(said) <= MOST_LINES
        else [*said[:MOST_LINES], f"│ … and {count_noun(len(said) - MOST_LINES, 'more line')}"]
    )
    head = request.pull_request.head_sha[:8]
    body = [f"### {escape_markdown(voice.title)}", "", f"**⚠️ there is no preview of {head}**", ""]
    for note in _notes(request, voice):
        body += [note, ""]
    return Words(("\n".join([*body, *fence_code(shown, "text"), ""]),), State.FAILURE, escape_lines(reason)[0])


def _notes(request: Request, voice: Voice) -> list[str]:
    said = [f"[All of it on one page](<{voice.page}>)"] if voice.page else []
    head = request.pull_request.head_sha
    if request.withheld:
        said.append(
            "This comes from a fork, so no cluster was asked. Whoever may write to this repository can have it "
            f"compared with the clusters by a comment that says `{command(head)}`; it holds for this commit alone."
        )
    if request.doubt:
        said.append(f"Somebody named this commit; whether they may could not be told: {escape_markdown(request.doubt)}")
    if request.approver:
        by = escape_markdown(request.approver)
        said.append(f"A fork's commit, compared with the clusters because {by} approved it.")
    return said


async def begin(forge: Forge, request: Request, voice: Voice) -> None:
    """Say that a preview is being made."""
    head = request.pull_request.head_sha
    await forge.set_status(head, voice.context, State.PENDING, "the preview is being made", voice.page)


async def tell(forge: Forge, request: Request, voice: Voice, words: Words) -> str:
    """Post the comment and then the status. Returns the comment's address, "" where the pull request has moved on.

    A preview of a commit that is the head no longer would hide the one of the new head, so it is not posted.
    """
    was = request.pull_request
    try:
        now = await forge.pull_request(was.number)
        is_current = now.is_open and now.head_sha == was.head_sha
        url = (await post(forge, was.number, voice.topic, words.parts)).url if is_current else ""
    except FleetError:
        await give_up(forge, request, voice, "the preview could not be posted")
        raise
    await forge.set_status(was.head_sha, voice.context, words.state, words.line, voice.page or url)
    return url


async def give_up(forge: Forge, request: Request, voice: Voice, reason: str) -> None:
    """Leave no status pending for ever, if the forge lets us; what went wrong is the caller's to say."""
    with suppress(FleetError):
        await forge.set_status(request.pull_request.head_sha, voice.context, State.ERROR, reason, voice.page)
