"""Health into git: what changed since the last time, together in one commit, and not too often.

Fifty changes in a second are one commit. What could not be written is not lost: the newest word on every stack and
cluster is kept until it is on the branch, and the branch is compared with it before anything is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec

from fleet.errors import FleetError
from fleet.git import refs, status
from fleet.git.publish import trim
from fleet.git.status import FindRemoved, choose_remote, report
from fleet.git.status_records import StatusReport
from fleet.kube.runtime.queue import Backoff
from fleet.objects.desired import StackCluster
from fleet.serve.background import run_in_thread
from fleet.sync.source import Checkout

P = ParamSpec("P")
SETTLE = 0.5  # seconds in which more may come
EVERY = 3.0  # seconds between two commits at least
LOOK_BACK = 100  # writes after which the branch is looked at for its length

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StatusWriter:
    """`tell` at any time; `run` writes. `written` is called with the number of stacks that were told of.

    There is one write at a time: of two, the one with the older words could come last.
    """

    settle: float = SETTLE
    every: float = EVERY
    written: Callable[[int], None] = lambda count: None
    failed: Callable[[FleetError], None] = lambda problem: None
    by: str = ""  # who applied what is told
    _news: dict[StackCluster, StatusReport] = field(default_factory=dict)
    _files: Checkout | None = None
    _gone: FindRemoved = lambda known: ()
    _left: set[StackCluster] = field(default_factory=set)  # what is no longer placed where it was, and forgotten there
    _there: dict[str, frozenset[str]] = field(default_factory=dict)  # cluster → all stacks that it has or should have
    _call: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _under_way: asyncio.Future[None] | None = None
    _writes: int = 0

    def tell(self, files: Checkout, *reports: StatusReport) -> None:
        self._files = files
        news = {(one.stack, one.cluster): one for one in reports}
        self._news.update(news)
        self._left -= news.keys()
        self._call.set()

    def no_more(self, files: Checkout, gone: FindRemoved) -> None:
        """Which of those that the branch knows are no more, from now on. What clusters have is to be seen anew."""
        self._files, self._gone = files, gone
        self._there = {}
        self._call.set()

    def left(self, files: Checkout, pair: StackCluster) -> None:
        """The stack is forgotten in a cluster that it is not placed on any more."""
        self._files = files
        self._news.pop(pair, None)
        self._left.add(pair)
        self._call.set()

    def looked_through(self, cluster: str, stacks: frozenset[str]) -> None:
        """All stacks that the cluster has or should have: whoever forgot another may have died before it told."""
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
        """Write what there is; False when that failed and is to be tried again."""
        async with self._writing:
            return await self._flush()

    async def _flush(self) -> bool:
        self._call.clear()
        files, news, left = self._files, dict(self._news), set(self._left)
        if files is None:
            return True
        gone = _no_more(self._gone, dict(self._there))
        try:
            await self._alone(_write, files, list(news.values()), sorted(left), gone, self.by)
        except FleetError as problem:
            log.warning("health was not written into git: %s", problem.message)
            self.failed(problem)
            self._call.set()
            return False
        self._news = {pair: one for pair, one in self._news.items() if news.get(pair) is not one}
        self._left -= left
        self.written(len(news))
        self._writes += 1
        if self._writes % LOOK_BACK == 1:
            with contextlib.suppress(FleetError):  # the next time, then
                await self._alone(_shorten, files)
        return True

    async def _alone(self, write: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """After the one before it, also one that nobody waits for any more: its thread goes on."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way])
        self._under_way = asyncio.ensure_future(run_in_thread(write, *args, **kwargs))
        self._under_way.add_done_callback(lambda one: one.cancelled() or one.exception())  # heard, if by nobody else
        await asyncio.shield(self._under_way)


def _no_more(gone: FindRemoved, there: Mapping[str, frozenset[str]]) -> FindRemoved:
    """Those that git does not know any more, and those that a cluster which was looked through does not have."""

    def both(known: Iterable[StackCluster]) -> set[StackCluster]:
        pairs = list(known)
        return {*gone(pairs), *(pair for pair in pairs if pair[1] in there and pair[0] not in there[pair[1]])}

    return both


def _write(
    files: Checkout, reports: list[StatusReport], left: Sequence[StackCluster], gone: FindRemoved, by: str
) -> None:
    settings = files.repository.settings.git
    if files.git is not None:
        remote = choose_remote(files.remotes, settings.remote)
        report(files.git, reports, removed=left, gone=gone, remote=remote, branch=settings.status_branch, by=by)


def _shorten(files: Checkout) -> None:
    settings = files.repository.settings.git
    if files.git is not None:
        remote = choose_remote(files.remotes, settings.remote)
        for ref in (refs.branch_ref(settings.status_branch), status.NOTES_REF):
            trim(files.git, remote, ref)
