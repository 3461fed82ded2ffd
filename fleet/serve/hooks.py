"""Webhooks of forges: a word that something happened, checked for its signature, and never believed further than that.

A push makes the service look at the repository now instead of with its next poll. Paths: /hooks/github, /hooks/gitlab,
/hooks/gitea. The secret is the one that was given to the forge; without one nobody is listened to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from fleet.errors import AccessError, FleetError
from fleet.forge.model import Event, Kind, Repository
from fleet.forge.webhook import MOST_BYTES, read
from fleet.kube.runtime.metrics import Counter
from fleet.repository.identity import of_address
from fleet.serve.origin import Origin

PREFIX = "/hooks/"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hooks:
    """`heard` gets what was really sent by the forge."""

    secret: str
    heard: Callable[[Event], None]
    counted: Counter

    async def answer(self, request: web.BaseRequest) -> web.Response:
        name = request.path.removeprefix(PREFIX)
        if request.method != "POST" or name not in set(Kind) or not self.secret:
            return self._said(404, "unknown", "hooks are POSTs to /hooks/github, /hooks/gitlab and /hooks/gitea")
        body = await _body(request)
        if body is None:
            return self._said(413, "refused", "too long")
        try:
            event = read(Kind(name), dict(request.headers), body, self.secret)
        except AccessError as problem:
            log.warning("a webhook from %s was refused: %s", request.remote, problem.message)
            return self._said(403, "refused", problem.message)
        except FleetError as problem:
            return self._said(400, "unreadable", problem.message)
        if event is None:
            return self._said(200, "ignored", "nothing to do")
        self.heard(event)
        return self._said(202, "heard", "thank you")

    def _said(self, status: int, result: str, text: str) -> web.Response:
        self.counted.add(result)
        return web.Response(status=status, text=text)


async def _body(request: web.BaseRequest) -> bytes | None:
    """All of it; None when it is longer than any forge's."""
    parts, total = [], 0
    async for part in request.content.iter_any():
        total += len(part)
        if total > MOST_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def meant(repository: Repository, origins: Sequence[Origin]) -> list[Origin]:
    """The origins that are this repository of a forge; all of them when none is: the address may be another here."""
    path = f"/{repository.path}".lower()
    return [one for one in origins if of_address(one.url).lower().endswith(path)] or list(origins)
