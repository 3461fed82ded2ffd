"""Sticky comment and /fleet commands.

One comment of ours on a pull request, in as many parts as it takes: found again, edited in place, never doubled.

A part is known by a mark that nobody sees and by its author: a mark alone anybody can write. Several may post at once.
Each writes, looks again and puts right what it finds; of parts that were made twice the oldest stays, and whoever sees
that another wrote the first part later leaves the rest to that one. So there is one comment in the end.

A maintainer's word for one commit of a fork: a comment that begins with the line `/fleet preview COMMIT`.

The commit is named in full. A comment without it would mean whatever the head is when it is read, and a fork can push
between a maintainer's look and that; times do not help, as the author of a commit sets its time. A short id does not
either: two commits with the same first twelve digits are a matter of minutes to make.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet.errors import AccessError, NotFoundError, ResourceError
from fleet.forge.forge import Comment, Forge

ROUNDS = 6
_MARK = re.compile(r"<!-- fleet ([a-z]+) ([0-9a-f]{12}) part (\d{1,3}) -->")


@dataclass(frozen=True, slots=True)
class Topic:
    """What a comment is about: `name` such as "preview", and whose it is, as one repository may hold several fleets."""

    name: str
    fleet: str = ""

    def mark(self, part: int) -> str:
        return f"<!-- fleet {self.name} {self.digest} part {part} -->"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.fleet.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Create:
    body: str


@dataclass(frozen=True, slots=True)
class Edit:
    comment: int
    body: str


@dataclass(frozen=True, slots=True)
class Delete:
    comment: int


def has_mark(body: str) -> bool:
    """Whether it begins as comments of fleet do."""
    return bool(_MARK.match(body.lstrip()))


def room(forge: Forge) -> int:
    """How long a part may be, with the mark and some space for what a forge counts otherwise."""
    return forge.longest_comment - 2048


async def post(forge: Forge, number: int, topic: Topic, parts: Sequence[str]) -> Comment:
    """Have the pull request show these parts and nothing else about the topic. Returns the first."""
    wanted = [f"{topic.mark(place)}\n{part}" for place, part in enumerate(parts, start=1)]
    me = await forge.me()
    wrote = False
    for _ in range(ROUNDS):
        there = ours(await forge.comments(number), me, topic)
        first = min(there.get(1, ()), key=lambda one: one.id, default=None)
        if first and wrote and not _same(first.body, wanted[0]):  # another poster was later than we
            await _take(forge, number, doubled(there))
            return first
        steps = decide(there, wanted)
        if not steps and first:
            return first
        await _take(forge, number, steps)
        wrote = True
    raise ResourceError(
        f"the comment on pull request {number} of {forge.repository.path} does not stay as it was written",
        hint="does somebody else delete or edit it?",
    )


def ours(comments: Iterable[Comment], me: str, topic: Topic) -> dict[int, list[Comment]]:
    """The comments of this topic by part: with its mark, and written by us."""
    found: dict[int, list[Comment]] = {}
    for one in comments:
        mark = _MARK.match(one.body.lstrip())
        if mark and one.author.lower() == me.lower() and (mark[1], mark[2]) == (topic.name, topic.digest):
            found.setdefault(int(mark[3]), []).append(one)
    return found


def decide(there: dict[int, list[Comment]], wanted: Sequence[str]) -> list[Create | Edit | Delete]:
    """What leads from what is there to what is wanted. The first part is written last, and deletions come after it."""
    if 1 not in there:  # the others would stand above it: all of it is made anew
        old = [Delete(one.id) for its in there.values() for one in its]
        return [*(Create(body) for body in wanted), *old]
    kept = {part: min(its, key=lambda one: one.id) for part, its in there.items()}
    steps: list[Create | Edit | Delete] = []
    for part, body in [*list(enumerate(wanted, start=1))[1:], (1, wanted[0])]:
        if part not in kept:
            steps.append(Create(body))
        elif not _same(kept[part].body, body):
            steps.append(Edit(kept[part].id, body))
    surplus = [Delete(one.id) for part, one in sorted(kept.items()) if part > len(wanted)]
    return [*steps, *doubled(there), *surplus]


def doubled(there: dict[int, list[Comment]]) -> list[Create | Edit | Delete]:
    """Of every part all but the oldest."""
    return [Delete(one.id) for its in there.values() for one in sorted(its, key=lambda one: one.id)[1:]]


async def _take(forge: Forge, number: int, steps: Iterable[Create | Edit | Delete]) -> None:
    for step in steps:
        if isinstance(step, Create):
            await forge.create_comment(number, step.body)
        elif isinstance(step, Delete):
            await forge.delete_comment(number, step.comment)
        else:
            try:
                await forge.edit_comment(number, step.comment, step.body)
            except NotFoundError:  # somebody deleted it meanwhile; the next look sees that
                return


def _same(one: str, other: str) -> bool:
    """Forges change the ends of lines and of texts."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()


_COMMAND = re.compile(r"/fleet[ \t]+preview(?:[ \t]+(?P<commit>\S+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def command(commit: str) -> str:
    """What a maintainer writes."""
    return f"/fleet preview {commit}"


def asked(body: str) -> str | None:
    """The commit that a comment names; "" for one that asks without naming any in full; None for all others.

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


def naming(comments: Iterable[Comment], commit: str) -> list[str]:
    """Who named this commit, each once, in order."""
    return list(dict.fromkeys(one.author for one in comments if one.author and asked(one.body) == commit))


@dataclass(frozen=True, slots=True)
class Approval:
    by: str = ""  # "": nobody
    doubt: str = ""  # why it could not be told whether somebody who named it may approve


async def approval(forge: Forge, number: int, commit: str) -> Approval:
    """Whether somebody who may write to the repository approved this commit. What cannot be told is no."""
    doubt = ""
    for author in naming(await forge.comments(number), commit):
        try:
            if await forge.may_approve(author):
                return Approval(author)
        except AccessError as error:
            doubt = error.message
    return Approval(doubt=doubt)
