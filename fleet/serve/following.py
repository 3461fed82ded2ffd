"""One branch of a repository: what its newest commit wants, read once and, if that failed, again after a while."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.git.mirror import Mirror
from fleet.kube.runtime.metrics import Counter
from fleet.kube.runtime.queue import Backoff
from fleet.serve.origin import Origin
from fleet.serve.reading import Reading
from fleet.serve.threads import in_thread
from fleet.serve.wanted import Wanted
from fleet.sync.trust import check_signature

AGAIN = Backoff(first=5.0, most=900.0)  # the same files mostly mean the same mistake; a machine may get some memory


@dataclass(slots=True)
class Following:
    origin: Origin
    reading: Reading
    signers: Path | None  # only commits signed with one of their keys are read
    fetches: Counter
    tip: str = ""  # the newest commit that was looked at, good or not
    since: float = 0.0  # when it was seen; 0: it is in every cluster
    _again: float = math.inf  # when to read it again, if that failed
    _failures: int = 0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Whoever asks the remote meanwhile, counted if it fails."""
        try:
            yield
        except FleetError:
            self.fetches.add(str(self.origin), "failed")
            raise

    async def tips(self, mirror: Mirror, *refs: str) -> Mapping[str, str]:
        return await in_thread(mirror.tips, self.origin.branch, *self.reading.also, *refs)

    async def newest(
        self, mirror: Mirror, tip: str, before: Wanted | None, check: Callable[[Wanted], Awaitable[None]]
    ) -> Wanted | None:
        """What the commit that the branch is at wants; None: that is known. Whatever is wrong with it is raised.

        `check` raises what speaks against it.
        """
        if tip == self.tip and time.monotonic() < self._again:
            self.fetches.add(str(self.origin), "same")
            return None
        if tip != self.tip:
            seen = time.monotonic()
            with self.asking():
                await in_thread(mirror.fetch, (self.origin.refspec,))
            self.tip, self.since, self._failures = tip, seen, 0
        self.fetches.add(str(self.origin), "new")
        try:
            if self.signers:
                await in_thread(check_signature, mirror.repository, tip, self.signers)
            found = await in_thread(self.reading.read, self.origin, mirror, tip, before)
            await check(found)
        except FleetError:
            self._failures += 1
            self._again = time.monotonic() + AGAIN.delay(self._failures)
            raise
        self._again = math.inf
        return found

    def read_again(self, seconds: float) -> None:
        """What was read cannot be used, for a reason that is not in it."""
        self._again = time.monotonic() + seconds
