"""The concurrency limit of requests, and the delays before another try.

As many requests are under way at once as allowed, fewer while the server says that it is too many. There is no
client-side rate limit. API servers have fairness of their own and say 429 when it is too much; then the number halves
(once per second at most, since many answers tell of one overload) and grows back with each success.

`retry_delay` and `is_worth_retrying` say which answers are worth another try, and after how long. They are pure; the
client sleeps. Back-off has jitter, because all clients of a restarting API server come back in the same second, and the
delay that the server itself asks for (`Retry-After`) is never undercut.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass


class ConcurrencyLimit:
    """Semaphore whose limit moves: halved by `narrow`, grown back by `widen`. Used as `async with limit:`."""

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
            if turn.done() and not turn.cancelled():  # this request was given a place and will not use it
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self.inside -= 1
        self._call_next()

    def narrow(self) -> None:
        """Halve the limit, once per second at most."""
        now = time.monotonic()
        if now - self._narrowed >= 1.0:
            self._narrowed = now
            self.limit = max(1.0, self.limit / 2)

    def widen(self) -> None:
        """Let the limit grow back a little."""
        if self.limit < self.most:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)
            self._call_next()

    def _call_next(self) -> None:
        """Hand free places over in the order of arrival: a request that comes back goes behind those that wait."""
        while self._waiting and self.inside < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)


OVERLOADED = 429
UNSETTLED = frozenset({500, 502, 503, 504})  # the server or something before it failed; a write may have happened


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request is tried before its failure is the answer."""

    seconds: float = 30.0  # an API server that restarts is back within this
    first: float = 0.1
    most: float = 5.0
    internal_errors: int = 3  # tries after a 500, which often stays (a broken webhook)


DEFAULT = Patience()


def retry_delay(attempt: int, retry_after: float | None = None, patience: Patience = DEFAULT) -> float:
    """Return the seconds to wait after the `attempt`-th failure, counted from 1."""
    longest = min(patience.most, patience.first * 2.0 ** (attempt - 1))
    calm = longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
    return calm if retry_after is None else retry_after + calm * 0.25


def is_worth_retrying(status: int, attempt: int, patience: Patience = DEFAULT) -> bool:
    """Return whether another try may succeed after this status."""
    if status == OVERLOADED:
        return True
    if status == 500:
        return attempt < patience.internal_errors
    return status in UNSETTLED


def retry_after(header: str | None) -> float | None:
    """Return the header's value in seconds, at most 60; None for anything but whole seconds, which API servers send."""
    if header is None or not header.strip().isdigit():
        return None
    return min(float(header), 60.0)
