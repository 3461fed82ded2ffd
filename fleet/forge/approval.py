"""A maintainer's word for one commit of a fork: a comment that begins with the line `/fleet preview COMMIT`.

The commit is named in full. A comment without it would mean whatever the head is when it is read, and a fork can push
between a maintainer's look and that; times do not help, as the author of a commit sets its time. A short id does not
either: two commits with the same first twelve digits are a matter of minutes to make.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import AccessError
from fleet.forge.client import Forge
from fleet.forge.model import Comment
from fleet.forge.sticky import has_mark

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
