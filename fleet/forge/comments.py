"""Sticky comment and /fleet commands.

A sticky comment is one comment of ours on a pull request, in as many parts as it takes: found again, edited in place,
never doubled. A part is known by an invisible mark and by its author: a mark alone can be written by every user.
Several processes may post at once. Each writes, reads again and puts right what it finds; of parts that were made twice
the oldest stays, and a process which sees that another wrote the first part later leaves the rest to that one. So there
is one comment in the end.

A maintainer approves one commit of a fork by a comment that begins with the line `/fleet preview COMMIT`. The commit is
named in full. A comment without it would mean whatever the head is when it is read, and a fork can push between a
maintainer's review and that; times do not help, as the author of a commit sets its time. A short id does not either:
two commits with the same first twelve digits are a matter of minutes to make.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet.errors import AccessError, NotFoundError, ResourceError
from fleet.forge.forge import Comment, Forge

MOST_ROUNDS = 6
_MARK = re.compile(r"<!-- fleet ([a-z]+) ([0-9a-f]{12}) part (\d{1,3}) -->")


@dataclass(frozen=True, slots=True)
class StickyComment:
    """Identity of our comment: `name` such as "preview", and whose it is, as one repository may hold several fleets."""

    name: str
    fleet: str = ""

    def mark(self, part: int) -> str:
        return f"<!-- fleet {self.name} {self.digest} part {part} -->"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.fleet.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class CreateComment:
    body: str


@dataclass(frozen=True, slots=True)
class EditComment:
    comment: int
    body: str


@dataclass(frozen=True, slots=True)
class DeleteComment:
    comment: int


def has_mark(body: str) -> bool:
    """Return whether a text begins as comments of fleet do."""
    return bool(_MARK.match(body.lstrip()))


def longest_part(forge: Forge) -> int:
    """Return how long a part may be, with the mark and some space for what a forge counts otherwise."""
    return forge.longest_comment - 2048


async def post_sticky_comment(forge: Forge, number: int, sticky: StickyComment, parts: Sequence[str]) -> Comment:
    """Have the pull request show these parts and nothing else about the topic; return the first.

    Raises ResourceError when the comment does not stay as it was written.
    """
    bodies = [f"{sticky.mark(position)}\n{part}" for position, part in enumerate(parts, start=1)]
    me = await forge.me()
    wrote = False
    for _ in range(MOST_ROUNDS):
        present = own_parts(await forge.comments(number), me, sticky)
        first = min(present.get(1, ()), key=lambda comment: comment.id, default=None)
        if first and wrote and not _is_same_text(first.body, bodies[0]):  # another poster was later than we
            await _carry_out(forge, number, delete_duplicates(present))
            return first
        steps = plan_comment_steps(present, bodies)
        if not steps and first:
            return first
        await _carry_out(forge, number, steps)
        wrote = True
    raise ResourceError(
        f"the comment on pull request {number} of {forge.repository.path} does not stay as it was written",
        hint="does somebody else delete or edit it?",
    )


def own_parts(comments: Iterable[Comment], me: str, sticky: StickyComment) -> dict[int, list[Comment]]:
    """Return the comments of this subject by part: those with its mark that the token's owner wrote."""
    parts: dict[int, list[Comment]] = {}
    for comment in comments:
        mark = _MARK.match(comment.body.lstrip())
        if mark and comment.author.lower() == me.lower() and (mark[1], mark[2]) == (sticky.name, sticky.digest):
            parts.setdefault(int(mark[3]), []).append(comment)
    return parts


def plan_comment_steps(
    present: dict[int, list[Comment]], bodies: Sequence[str]
) -> list[CreateComment | EditComment | DeleteComment]:
    """Return the steps from the comments that are present to the ones wanted.

    The first part is written last, and deletions come after it.
    """
    if 1 not in present:  # the others would stand above it: all of it is made anew
        old = [DeleteComment(comment.id) for copies in present.values() for comment in copies]
        return [*(CreateComment(body) for body in bodies), *old]
    oldest = {part: min(copies, key=lambda comment: comment.id) for part, copies in present.items()}
    steps: list[CreateComment | EditComment | DeleteComment] = []
    for part, body in [*list(enumerate(bodies, start=1))[1:], (1, bodies[0])]:
        if part not in oldest:
            steps.append(CreateComment(body))
        elif not _is_same_text(oldest[part].body, body):
            steps.append(EditComment(oldest[part].id, body))
    surplus = [DeleteComment(comment.id) for part, comment in sorted(oldest.items()) if part > len(bodies)]
    return [*steps, *delete_duplicates(present), *surplus]


def delete_duplicates(present: dict[int, list[Comment]]) -> list[CreateComment | EditComment | DeleteComment]:
    """Return the deletion of all but the oldest comment of every part."""
    return [
        DeleteComment(comment.id)
        for copies in present.values()
        for comment in sorted(copies, key=lambda comment: comment.id)[1:]
    ]


async def _carry_out(forge: Forge, number: int, steps: Iterable[CreateComment | EditComment | DeleteComment]) -> None:
    for step in steps:
        if isinstance(step, CreateComment):
            await forge.create_comment(number, step.body)
        elif isinstance(step, DeleteComment):
            await forge.delete_comment(number, step.comment)
        else:
            try:
                await forge.edit_comment(number, step.comment, step.body)
            except NotFoundError:  # it was deleted meanwhile; the next reading sees that
                return


def _is_same_text(text: str, other: str) -> bool:
    """Compare two texts but for what forges change: the ends of lines and of texts."""
    return text.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()


_COMMAND = re.compile(r"/fleet[ \t]+preview(?:[ \t]+(?P<commit>\S+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def approval_command(commit: str) -> str:
    """Return the line that a maintainer writes."""
    return f"/fleet preview {commit}"


def requested_commit(body: str) -> str | None:
    """Return the commit that a comment names; "" for one that asks without naming any in full; None for all others.

    Comments of fleet itself show the command and never are one.
    """
    if has_mark(body):
        return None
    first = body.strip().partition("\n")[0].rstrip()
    match = _COMMAND.fullmatch(first)
    if not match:
        return None
    commit = (match["commit"] or "").lower()
    return commit if _COMMIT.fullmatch(commit) else ""


def users_naming(comments: Iterable[Comment], commit: str) -> list[str]:
    """Return the users who named this commit, each once, in order."""
    return list(
        dict.fromkeys(
            comment.author for comment in comments if comment.author and requested_commit(comment.body) == commit
        )
    )


@dataclass(frozen=True, slots=True)
class ForkApproval:
    """The approval of a fork's commit."""

    by: str = ""  # user name; "": not approved
    doubt: str = ""  # why it is unknown whether a user who named it may approve; "" if it is known


async def read_fork_approval(forge: Forge, number: int, commit: str) -> ForkApproval:
    """Return whether a user who may write to the repository approved this commit. An unknown answer is no."""
    doubt = ""
    for author in users_naming(await forge.comments(number), commit):
        try:
            if await forge.may_approve(author):
                return ForkApproval(author)
        except AccessError as error:
            doubt = error.message
    return ForkApproval(doubt=doubt)
