"""The guard of writes, which is shut the moment that the right to write may have ended.

A process that was frozen and wakes up still believes that it leads. So each write asks the clock, not a flag: the guard
is open until a time that only a renewed Lease puts off, and that lies well before another process may take over. It is
asked before each try of a request and once more as the bytes go out (see `client.pool`), since between the two a
connection may have had to be made.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fleet.kube.client.client import Client
from fleet.kube.client.connection import Check
from fleet.kube.client.kubeconfig import Headers
from fleet.kube.client.pool import allow
from fleet.kube.client.response import RawResponse

READS = frozenset({"GET", "HEAD"})


def now() -> float:
    """Return seconds that also pass while the process is stopped or the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class NotLeadingError(Exception):
    """Error for a write that was not sent, because another process may lead by now."""


class Guard:
    """Gate of writes, open for ever unless an election sets its times."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self._clock = clock
        self._until = math.inf
        self.exempt: frozenset[str] = frozenset()  # the paths of the Lease itself

    @property
    def is_open(self) -> bool:
        return self._clock() < self._until

    @property
    def remaining(self) -> float:
        return max(0.0, self._until - self._clock())

    def open_until(self, moment: float) -> None:
        self._until = moment

    def shut(self) -> None:
        self._until = -math.inf

    def check(self, method: str, path: str) -> None:
        """Raise NotLeadingError for a write while the guard is shut, except on the paths of the Lease itself."""
        if method in READS or self.is_open or path in self.exempt:
            return
        raise NotLeadingError(f"{method} {path.partition('?')[0]} was not sent: another process may lead by now")


class GuardedClient(Client):
    """Client whose every write passes the guard, also each repetition of one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.guard = Guard()
        from fleet.kube.runtime.metrics import Counter  # noqa: PLC0415 - `Guard` alone is used where nothing is measured

        name, labels = "rest_client_requests_total", ("code", "method")
        self.sent = Counter(name, "Requests by method and status code.", labels, registry=None)

    async def _once(
        self, method: str, path: str, data: bytes | None, headers: Headers, check: Check = allow
    ) -> RawResponse:
        check = partial(self.guard.check, method, path)
        check()
        try:
            answer = await super()._once(method, path, data, headers, check)
        except Exception:
            check()  # that the right to write has ended comes before how a write broke
            self.sent.labels("<error>", method).inc()
            raise
        self.sent.labels(str(answer.status), method).inc()
        return answer
