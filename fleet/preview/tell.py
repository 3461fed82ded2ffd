"""A preview on its pull request: a commit status from beginning to end, and one comment that is edited in place.

What cannot be posted is an error: a preview that nobody sees is none.
"""

from __future__ import annotations

from contextlib import suppress

from fleet.errors import FleetError
from fleet.forge.client import Forge
from fleet.forge.model import State
from fleet.forge.sticky import post
from fleet.preview.request import Request
from fleet.preview.voice import Voice
from fleet.preview.words import Words


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
