"""Concurrency limit and retry delays.

How many requests are under way at once: as many as allowed, fewer while the server says that it is too many.

There is no client-side rate limit. API servers have fairness of their own and say 429 when it is too much; then the
number halves (once per second at most, since many answers tell of one overload) and grows back with each success.

Which answers are worth another try, and after how long. Pure; the client sleeps.

Back-off has jitter, because all clients of a restarting API server come back in the same second, and what the
server itself asks for (`Retry-After`) is never undercut.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass


class ConcurrencyLimit:
    """A semaphore whose limit moves: halved by `narrow`, grown back by `widen`. Use as `async with gate:`."""

    def __init__(self, limit: int) -> None:
        self.most = limit
        self.limit = float(limit)
        self.inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._narrowed = 0.0

    async def __aenter__(self) -> None:
        if self.inside < int(self.limit) and not self._waiting:
            self.inside += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the place was given to us and we will not take it
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self.inside -= 1
        self._call_next()

    def narrow(self) -> None:
        now = time.monotonic()
        if now - self._narrowed >= 1.0:
            self._narrowed = now
            self.limit = max(1.0, self.limit / 2)

    def widen(self) -> None:
        if self.limit < self.most:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)
            self._call_next()

    def _call_next(self) -> None:
        """Hand free places over in the order of arrival: whoever leaves and comes back does so behind the others."""
        while self._waiting and self.inside < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)


OVERLOADED = 429
UNSETTLED = frozenset({500, 502, 503, 504})  # the server or something before it failed; a write may have happened


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request is tried for before its failure is the answer."""

    seconds: float = 30.0  # an API server that restarts is back within this
    first: float = 0.1
    most: float = 5.0
    internal_errors: int = 3  # a 500 is often for good (a webhook that is broken): few tries


DEFAULT = Patience()


def retry_delay(attempt: int, retry_after: float | None = None, patience: Patience = DEFAULT) -> float:
    """Seconds to wait after the `attempt`-th failure, counted from 1."""
    longest = min(patience.most, patience.first * 2.0 ** (attempt - 1))
    calm = longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
    return calm if retry_after is None else retry_after + calm * 0.25


def is_worth_retrying(status: int, attempt: int, patience: Patience = DEFAULT) -> bool:
    if status == OVERLOADED:
        return True
    if status == 500:
        return attempt < patience.internal_errors
    return status in UNSETTLED


def retry_after(header: str | None) -> float | None:
    """The header in seconds; API servers send whole seconds, and anything else says nothing certain."""
    if header is None or not header.strip().isdigit():
        return None
    return min(float(header), 60.0)
