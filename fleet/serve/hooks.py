"""Webhooks of forges: a word that something happened, checked for its signature, and never believed further than that.

A push makes the service look at the repository now instead of with its next poll. Paths: /hooks/github, /hooks/gitlab,
/hooks/gitea. The secret is the one that was given to the forge; without one nobody is listened to.

Who sends is known only when the body is here whole, so bodies are what a stranger can fill the memory with. One without
a signature is not read; the others have so many seconds, and so many bytes together. When these are spent, the largest
body is given up: a stranger's, since what forges send is small.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from fleet.errors import AccessError, FleetError
from fleet.forge.model import Event, Kind, Repository
from fleet.forge.webhook import MOST_BYTES, check_headers, read
from fleet.kube.runtime.metrics import Counter
from fleet.repository.identity import of_address
from fleet.serve.origin import Origin

PREFIX = "/hooks/"
SECONDS = 15.0  # for a body; forges themselves wait for 10
IN_FLIGHT = 48 * 1024 * 1024  # bytes of bodies that are not here whole

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Body:
    """What is here of one body."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    given_up: bool = False


@dataclass(slots=True)
class Bodies:
    """The bodies of all connections that are being read."""

    most: int = IN_FLIGHT
    size: int = 0
    _read: set[Body] = field(default_factory=set)

    def add(self, body: Body, part: bytes) -> None:
        """Keep a part; where that is too much together, the largest body is given up."""
        if body.given_up:
            return
        self._read.add(body)
        body.parts.append(part)
        body.size += len(part)
        self.size += len(part)
        while self.size > self.most:
            largest = max(self._read, key=lambda one: one.size)
            largest.given_up = True
            self.drop(largest)

    def drop(self, body: Body) -> None:
        """Forget a body, whether it was read to its end or not."""
        if body in self._read:
            self._read.remove(body)
            self.size -= body.size
        body.size = 0
        body.parts.clear()


@dataclass(frozen=True, slots=True)
class Hooks:
    """`heard` gets what was really sent by the forge."""

    secret: str
    heard: Callable[[Event], None]
    counted: Counter
    bodies: Bodies = field(default_factory=Bodies)
    seconds: float = SECONDS

    async def answer(self, request: web.BaseRequest) -> web.Response:
        name = request.path.removeprefix(PREFIX)
        if request.method != "POST" or name not in set(Kind) or not self.secret:
            return self._said(404, "unknown", "hooks are POSTs to /hooks/github, /hooks/gitlab and /hooks/gitea")
        kind, headers = Kind(name), dict(request.headers)
        try:
            check_headers(kind, headers, self.secret)
            if (request.content_length or 0) > MOST_BYTES:
                return self._said(413, "refused", "too long")
            body = await self._body(request)
            if isinstance(body, web.Response):
                return body
            event = read(kind, headers, body, self.secret)
        except AccessError as problem:
            log.warning("a webhook from %s was refused: %s", request.remote, problem.message)
            return self._said(403, "refused", problem.message)
        except FleetError as problem:
            return self._said(400, "unreadable", problem.message)
        if event is None:
            return self._said(200, "ignored", "nothing to do")
        self.heard(event)
        return self._said(202, "heard", "thank you")

    async def _body(self, request: web.BaseRequest) -> bytes | web.Response:
        """Return all of it, or what is said to one that is too long, too slow, or the largest of too many."""
        body = Body()
        try:
            async with asyncio.timeout(self.seconds):
                async for part in request.content.iter_any():
                    self.bodies.add(body, part)
                    if body.given_up:
                        return self._said(503, "refused", "too much at once: send it again later")
                    if body.size > MOST_BYTES:
                        return self._said(413, "refused", "too long")
            if body.given_up:
                return self._said(503, "refused", "too much at once: send it again later")
            return b"".join(body.parts)
        except (ConnectionError, web.PayloadAccessError, web.RequestPayloadError):
            return self._said(400, "refused", "it broke off")
        except TimeoutError:
            return self._said(408, "refused", f"it did not come within {self.seconds:g} s")
        finally:
            self.bodies.drop(body)

    def _said(self, status: int, result: str, text: str) -> web.Response:
        self.counted.add(result)
        response = web.Response(status=status, text=text)
        if status >= 400:
            response.force_close()
        return response


def meant(repository: Repository, origins: Sequence[Origin]) -> list[Origin]:
    """The origins that are this repository of a forge; all of them when none is: the address may be another here."""
    path = f"/{repository.path}".lower()
    return [one for one in origins if of_address(one.url).lower().endswith(path)] or list(origins)
