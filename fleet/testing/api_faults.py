"""Faults of the API server in tests, for every client of a cluster: `faults.api.fail(429, Match(resource="pods"))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleet.lab.faults.api.words import ALL, ApiWords
from fleet.lab.faults.fault import Fault
from fleet.lab.proxy.match import Match

if TYPE_CHECKING:
    from fleet.testing.faults import Broken


class ApiFaults:
    """Which requests is said by a `Match`; `share` is that of the requests that match, and `seed` says which."""

    def __init__(self, cluster: str, inject: Callable[[Fault, float | None], Broken]) -> None:
        self._words = ApiWords(cluster)
        self._inject = inject

    def fail(
        self,
        status: int = 500,
        match: Match = ALL,
        *,
        share: float | None = None,
        retry_after: int | None = None,
        seed: int = 0,
        seconds: float | None = None,
    ) -> Broken:
        """Answer requests with an error, such as 429, 500 or 410; they are not carried out."""
        return self._inject(self._words.fail(status, match, share=share, retry_after=retry_after, seed=seed), seconds)

    def slow(
        self, by: float, match: Match = ALL, *, share: float | None = None, seed: int = 0, seconds: float | None = None
    ) -> Broken:
        """Carry requests out so many seconds later."""
        return self._inject(self._words.slow(by, match, share=share, seed=seed), seconds)

    def forget(self, match: Match = ALL, *, after_events: int = 0, seconds: float | None = None) -> Broken:
        """End watches with 410 after so many events."""
        return self._inject(self._words.forget(match, after_events=after_events), seconds)

    def skew(self, by: float, match: Match = ALL, *, seconds: float | None = None) -> Broken:
        """Show times in Leases so many seconds later, or earlier if negative."""
        return self._inject(self._words.skew(by, match), seconds)
