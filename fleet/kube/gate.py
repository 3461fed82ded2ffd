"""How many requests are under way at once: as many as allowed, fewer while the server says that it is too many.

There is no client-side rate limit. API servers have fairness of their own and say 429 when it is too much; then the
number halves (once per second at most, since many answers tell of one overload) and grows back with each success.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque


class Gate:
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
