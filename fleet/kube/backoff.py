"""Which answers are worth another try, and after how long. Pure; the client sleeps.

Back-off has jitter, because all clients of a restarting API server come back in the same second, and what the
server itself asks for (`Retry-After`) is never undercut.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

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


def delay(attempt: int, retry_after: float | None = None, patience: Patience = DEFAULT) -> float:
    """Seconds to wait after the `attempt`-th failure, counted from 1."""
    longest = min(patience.most, patience.first * 2.0 ** (attempt - 1))
    calm = longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
    return calm if retry_after is None else retry_after + calm * 0.25


def worth_another_try(status: int, attempt: int, patience: Patience = DEFAULT) -> bool:
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
