"""The preview on its pull request: a commit status from beginning to end, and one comment that is edited in place.

One repository may hold several fleets, and each has its comment and status. What cannot be posted is an error: a
preview that no user sees is no preview.

The author of a pull request from a fork is not trusted yet. Its code is evaluated in the sandbox, as that of any head
is, and no cluster is asked for it until a user who may write to the repository names that very commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from fleet.errors import ConfigurationError, FleetError
from fleet.forge.comments import StickyComment, approval_command, post_sticky_comment, read_fork_approval
from fleet.forge.forge import CommitState, Forge, PullRequest
from fleet.plan.views.escape import escape_lines, escape_markdown, fence_code
from fleet.plan.views.markdown import markdown_comments
from fleet.plan.views.summary import PlanView, ViewHeader, summary_line
from fleet.text import count_noun

CONTEXT = "fleet/preview"


@dataclass(frozen=True, slots=True)
class CommentIdentity:
    """Identity under which a preview appears on a forge: which fleet of the repository, and where its page is."""

    below: str = ""  # the fleet's directory in the repository; "" for its root
    page: str = ""  # address of a page for users with the whole preview; "" for none

    @property
    def context(self) -> str:
        """Return the name of the commit status."""
        return f"{CONTEXT}/{self.below}" if self.below else CONTEXT

    @property
    def title(self) -> str:
        return f"fleet preview of {self.below}" if self.below else "fleet preview"

    @property
    def sticky(self) -> StickyComment:
        return StickyComment("preview", self.below)


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """A pull request that is to be previewed, and whether the clusters may be asked for it."""

    pull_request: PullRequest
    live: bool = False  # the clusters may be asked
    withheld: bool = False  # they would have been, if this commit of a fork were approved
    approver: str = ""  # of this commit of a fork
    doubt: str = ""  # why it is unknown whether it is approved; "" if it is known


async def read_request(forge: Forge, number: int, *, live: bool = False) -> PreviewRequest:
    """Ask the forge for the pull request and its approval. One that is not open is refused: it will not be merged."""
    pull_request = await forge.pull_request(number)
    if not pull_request.is_open:
        raise ConfigurationError(
            f"pull request {number} of {forge.repository.path} is {'merged' if pull_request.merged else 'closed'}",
            hint="previews are for open ones; reopen it first",
        )
    if not live or not pull_request.fork:
        return PreviewRequest(pull_request, live)
    approval = await read_fork_approval(forge, number, pull_request.head_sha)
    return PreviewRequest(
        pull_request, live=bool(approval.by), withheld=not approval.by, approver=approval.by, doubt=approval.doubt
    )


MOST_PARTS = 5
LONGEST_PART = 200_000  # characters; some forges take more, and no browser shows it in reasonable time
MOST_LINES = 60  # of an error
LONGEST_LINE = 400


@dataclass(frozen=True, slots=True)
class CommentText:
    """The text of a preview on a pull request: the parts of its comment, and the line of its commit status."""

    parts: tuple[str, ...]  # of the comment, in Markdown
    state: CommitState
    line: str  # of the status


def preview_text(
    branches: Sequence[PlanView],
    about: ViewHeader,
    errors: Sequence[FleetError],
    *,
    request: PreviewRequest,
    identity: CommentIdentity,
    room: int,
) -> CommentText:
    """Return the text for a preview, with or without errors in it."""
    parts = markdown_comments(
        branches,
        title=identity.title,
        about=about,
        limit=min(room, LONGEST_PART),
        most=MOST_PARTS,
        notes=_notes(request, identity),
    )
    if not errors:
        return CommentText(tuple(parts), CommitState.SUCCESS, summary_line(branches))
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return CommentText(tuple(parts), CommitState.FAILURE, f"{escape_lines(errors[0].message)[0]}{more}")


def error_text(error: FleetError, *, request: PreviewRequest, identity: CommentIdentity) -> CommentText:
    """Return the text where there is no preview: what is wrong, as the command line says it."""
    return failure_text(str(error), error.message, request=request, identity=identity)


def failure_text(text: str, reason: str, *, request: PreviewRequest, identity: CommentIdentity) -> CommentText:
    """Return the same from text.

    The error stands behind a bar: at the beginning of a line, some forges take a word for a command, even in a block of
    code.
    """
    quoted = [f"│ {line[:LONGEST_LINE]}" for line in escape_lines(text)]
    shown = (
        quoted
        if len(quoted) <= MOST_LINES
        else [*quoted[:MOST_LINES], f"│ … and {count_noun(len(quoted) - MOST_LINES, 'more line')}"]
    )
    head = request.pull_request.head_sha[:8]
    body = [f"### {escape_markdown(identity.title)}", "", f"**⚠️ there is no preview of {head}**", ""]
    for note in _notes(request, identity):
        body += [note, ""]
    return CommentText(
        ("\n".join([*body, *fence_code(shown, "text"), ""]),), CommitState.FAILURE, escape_lines(reason)[0]
    )


def _notes(request: PreviewRequest, identity: CommentIdentity) -> list[str]:
    notes = [f"[All of it on one page](<{identity.page}>)"] if identity.page else []
    head = request.pull_request.head_sha
    if request.withheld:
        notes.append(
            "This comes from a fork, so no cluster was asked. Whoever may write to this repository can have it "
            f"compared with the clusters by a comment that says `{approval_command(head)}`; "
            "it holds for this commit alone."
        )
    if request.doubt:
        notes.append(
            f"Somebody named this commit; whether they may could not be told: {escape_markdown(request.doubt)}"
        )
    if request.approver:
        approver = escape_markdown(request.approver)
        notes.append(f"A fork's commit, compared with the clusters because {approver} approved it.")
    return notes


async def post_pending(forge: Forge, request: PreviewRequest, identity: CommentIdentity) -> None:
    """Set the status to pending: the preview is being made."""
    head = request.pull_request.head_sha
    await forge.set_status(head, identity.context, CommitState.PENDING, "the preview is being made", identity.page)


async def post_preview(forge: Forge, request: PreviewRequest, identity: CommentIdentity, text: CommentText) -> str:
    """Post the comment and then the status; return the comment's address, "" where the pull request has moved on.

    A preview of a commit that is the head no longer would hide the one of the new head, so it is not posted.
    """
    previewed = request.pull_request
    try:
        current = await forge.pull_request(previewed.number)
        is_current = current.is_open and current.head_sha == previewed.head_sha
        url = (
            (await post_sticky_comment(forge, previewed.number, identity.sticky, text.parts)).url if is_current else ""
        )
    except FleetError:
        await post_error(forge, request, identity, "the preview could not be posted")
        raise
    await forge.set_status(previewed.head_sha, identity.context, text.state, text.line, identity.page or url)
    return url


async def post_error(forge: Forge, request: PreviewRequest, identity: CommentIdentity, reason: str) -> None:
    """Leave no status pending for ever, if the forge lets us; what went wrong is the caller's to say."""
    with suppress(FleetError):
        await forge.set_status(
            request.pull_request.head_sha, identity.context, CommitState.ERROR, reason, identity.page
        )
