"""Branch that a service follows: the commit that is applied, and the reader of each new one.

`BranchFollower` reads the newest commit of the branch once and, if that failed, again after a while. What the service
makes of it is in `CurrentCommit`, which is shared with all that works on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import FleetError
from fleet.git.repository import Mirror
from fleet.kube.runtime.queue import Backoff
from fleet.serve.background import run_in_thread
from fleet.serve.commits import CommitReader, EvaluatedCommit, FollowedRepository
from fleet.sync.source import check_signature

if TYPE_CHECKING:
    from fleet.kube.runtime.metrics import Counter


@dataclass(slots=True)
class CurrentCommit:
    """Commit that a service applies: the newest valid one of its branch, with what is known of a newer one."""

    evaluated: EvaluatedCommit | None = None
    error: FleetError | None = None  # of the newest commit, or of fetching it
    tip: str = ""  # the newest commit that was read, valid or not
    tip_seen: float = 0.0  # monotonic time at which it was first seen; 0 once it is in every cluster

    @property
    def broken_revision(self) -> str:
        """Return the newer commit that has an error; "" if there is none.

        For an agent, a commit that is no readable bundle names no revision: then it is the current one.
        """
        current = self.evaluated
        if self.error is None or current is None or not self.tip:
            return ""
        if self.tip != current.commit:
            return current.revision if current.rendered else self.tip
        trouble = current.rendered.index.trouble if current.rendered else None
        return trouble.revision if trouble else ""


AGAIN = Backoff(first=5.0, most=900.0)  # the same files mostly mean the same mistake; a machine may get some memory


@dataclass(slots=True)
class BranchFollower:
    """Follower of one branch: reads each new commit, and again after a while if that failed."""

    origin: FollowedRepository
    current: CurrentCommit
    reading: CommitReader
    signers: Path | None  # only commits signed with one of their keys are read
    fetches: Counter
    _again: float = math.inf  # monotonic time at which to read it again, if that failed
    _failures: int = 0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Count a failure to reach the remote."""
        try:
            yield
        except FleetError:
            self.fetches.labels(str(self.origin), "failed").inc()
            raise

    async def tips(self, mirror: Mirror, *refs: str) -> Mapping[str, str]:
        """Return the commits of the branch, of the reader's refs and of `refs` on the remote."""
        return await run_in_thread(mirror.tips, self.origin.branch, *self.reading.also, *refs)

    async def newest(
        self,
        mirror: Mirror,
        tip: str,
        check: Callable[[EvaluatedCommit], Awaitable[None]],
    ) -> EvaluatedCommit | None:
        """Return what the newest commit of the branch wants; None if that commit was read before.

        Any error of the commit is raised. `check` raises what forbids to use it.
        """
        current = self.current
        if tip == current.tip and time.monotonic() < self._again:
            self.fetches.labels(str(self.origin), "same").inc()
            return None
        if tip != current.tip:
            seen = time.monotonic()
            with self.asking():
                await run_in_thread(mirror.fetch, (self.origin.refspec,))
            current.tip, current.tip_seen, self._failures = tip, seen, 0
        self.fetches.labels(str(self.origin), "new").inc()
        try:
            if self.signers:
                await run_in_thread(check_signature, mirror.repository, tip, self.signers)
            evaluated = await run_in_thread(self.reading.read, self.origin, mirror, tip, current.evaluated)
            await check(evaluated)
        except FleetError:
            self._failures += 1
            self._again = time.monotonic() + AGAIN.delay(self._failures)
            raise
        self._again = math.inf
        return evaluated

    def read_again(self, seconds: float) -> None:
        """Read the commit again in some seconds: it cannot be used, for a reason that is not in it."""
        self._again = time.monotonic() + seconds
