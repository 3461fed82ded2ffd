"""Writer of health into git: what changed since the last write, together in one commit, and not too often.

Fifty changes in a second are one commit. A report that could not be written is not lost: the newest report on every
stack and cluster is kept until it is on the branch, and the branch is compared with it before anything is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec

from fleet.errors import FleetError
from fleet.git import refs, status
from fleet.git.publish import trim
from fleet.git.status import FindRemoved, choose_remote, report
from fleet.git.status_records import StatusReport
from fleet.kube.runtime.queue import Backoff
from fleet.objects.desired import StackCluster
from fleet.serve.background import run_in_thread
from fleet.sync.source import Commit

if TYPE_CHECKING:
    from fleet.kube.runtime.metrics import Counter

P = ParamSpec("P")
SETTLE = 0.5  # seconds in which more reports may come
EVERY = 3.0  # least seconds between two commits
LOOK_BACK = 100  # writes after which the length of the branch is checked

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StatusWriter:
    """Writer of status records: `tell` takes them at any time; `run` writes.

    There is one write at a time: of two, the one with the older reports could come last.
    """

    settle: float = SETTLE
    every: float = EVERY
    by: str = ""  # the program that applied what is reported
    repository: str = ""  # as the metric of writes names it
    writes: Counter | None = None  # by outcome
    _news: dict[StackCluster, StatusReport] = field(default_factory=dict)
    _files: Commit | None = None
    _gone: FindRemoved = lambda placements: ()
    _left: set[StackCluster] = field(default_factory=set)  # placements that are no more, and forgotten in their cluster
    _there: dict[str, frozenset[str]] = field(default_factory=dict)  # by cluster: all stacks that it has or should have
    _call: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _under_way: asyncio.Future[None] | None = None
    _done: int = 0  # writes

    def tell(self, files: Commit, *reports: StatusReport) -> None:
        self._files = files
        news = {(report.stack, report.cluster): report for report in reports}
        self._news.update(news)
        self._left -= news.keys()
        self._call.set()

    def set_removal(self, files: Commit, gone: FindRemoved) -> None:
        """Set how to find placements on the branch that are no more. What clusters have must be observed anew."""
        self._files, self._gone = files, gone
        self._there = {}
        self._call.set()

    def drop_stack(self, files: Commit, pair: StackCluster) -> None:
        """Note that a stack was forgotten in a cluster that it is not placed on any more."""
        self._files = files
        self._news.pop(pair, None)
        self._left.add(pair)
        self._call.set()

    def set_present_stacks(self, cluster: str, stacks: frozenset[str]) -> None:
        """Set all stacks that a cluster has or should have.

        A process that forgot another stack may have died before it reported that.
        """
        if self._there.get(cluster) != stacks:
            self._there[cluster] = stacks
            self._call.set()

    @property
    def pending(self) -> int:
        return len(self._news) + len(self._left)

    async def run(self) -> None:
        backoff, failures = Backoff(first=1.0, most=60.0), 0
        while True:
            await self._call.wait()
            await asyncio.sleep(self.settle)
            if await self.flush():
                failures = 0
                await asyncio.sleep(self.every)
            else:
                failures += 1
                await asyncio.sleep(backoff.delay(failures))

    async def flush(self) -> bool:
        """Write what is pending; return False when that failed and is to be tried again."""
        async with self._writing:
            return await self._flush()

    async def _flush(self) -> bool:
        self._call.clear()
        files, news, left = self._files, dict(self._news), set(self._left)
        if files is None:
            return True
        gone = _find_gone(self._gone, dict(self._there))
        try:
            await self._alone(_write_reports, files, list(news.values()), sorted(left), gone, self.by)
        except FleetError as problem:
            log.warning("health was not written into git: %s", problem.message)
            self._count("failed")
            self._call.set()
            return False
        self._news = {pair: report for pair, report in self._news.items() if news.get(pair) is not report}
        self._left -= left
        self._count("ok")
        self._done += 1
        if self._done % LOOK_BACK == 1:
            with contextlib.suppress(FleetError):  # the next check tries again
                await self._alone(_shorten_history, files)
        return True

    def _count(self, outcome: str) -> None:
        if self.writes is not None:
            self.writes.labels(self.repository, outcome).inc()

    async def _alone(self, write: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Write after the previous write has ended, even one that was abandoned: its thread goes on."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way])
        self._under_way = asyncio.ensure_future(run_in_thread(write, *args, **kwargs))
        self._under_way.add_done_callback(
            lambda write_task: write_task.cancelled() or write_task.exception()
        )  # asyncio logs an exception that is never read
        await asyncio.shield(self._under_way)


def _find_gone(gone: FindRemoved, stacks_by_cluster: Mapping[str, frozenset[str]]) -> FindRemoved:
    """Return a function that finds placements that git no longer knows, or that their cluster was seen not to have."""

    def both(placements: Iterable[StackCluster]) -> set[StackCluster]:
        pairs = list(placements)
        return {
            *gone(pairs),
            *(pair for pair in pairs if pair[1] in stacks_by_cluster and pair[0] not in stacks_by_cluster[pair[1]]),
        }

    return both


def _write_reports(
    files: Commit, reports: list[StatusReport], left: Sequence[StackCluster], gone: FindRemoved, by: str
) -> None:
    """Write status records into git."""
    settings = files.repository.settings.git
    remote = choose_remote(files.remotes, settings.remote)
    report(files.git, reports, removed=left, gone=gone, remote=remote, branch=settings.status_branch, by=by)


def _shorten_history(files: Commit) -> None:
    """Shorten the history of the status branch and of its notes."""
    settings = files.repository.settings.git
    remote = choose_remote(files.remotes, settings.remote)
    for ref in (refs.branch_ref(settings.status_branch), status.NOTES_REF):
        trim(files.git, remote, ref)
