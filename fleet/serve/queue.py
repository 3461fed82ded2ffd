"""Queue of placements to reconcile, and the passes that work through it.

The queue holds what to look at (`StackCluster`), never events: the cause of a possible change asks for a pass. One pass
is about some stacks of one cluster, and no two passes have the same stack there at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Coroutine, Iterable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fleet.kube.runtime.queue import LOW, Backoff, Queue
from fleet.objects.desired import StackCluster
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import EvaluatedCommit, without_stacks
from fleet.sync.targets import ClusterTarget

if TYPE_CHECKING:
    from fleet.kube.runtime.metrics import Histogram

ALL = ""  # as the stack of a pair: every stack that the cluster has or should have
AT_ONCE = 16  # passes
MOST = 200  # stacks of one pass
BUSY = 0.5  # seconds until a stack that another pass has is tried again
LOOK_AGAIN = 30.0  # seconds until a moving stack is synced again, if no watch reports before

log = logging.getLogger(__name__)


class ReconcileHooks(Protocol):
    """What the queue works for: it decides which placements a pass is about, and these run it."""

    async def reconcile(self, current: EvaluatedCommit, target: ClusterTarget) -> None:
        """Run one pass over the stacks of a target.

        What it raises about several stacks has each passed over alone.
        """

    def report_unexpected(self, current: EvaluatedCommit, placement: StackCluster, error: Exception) -> None:
        """Report what a pass over a single stack raised."""


@dataclass(slots=True)
class ReconcileQueue:
    """Queue of placements, and the workers that have passes run over them."""

    current: CurrentCommit
    seconds: Histogram  # of passes
    _queue: Queue[StackCluster] = field(default_factory=lambda: Queue(Backoff(first=0.5, most=60.0)))
    _busy: set[StackCluster] = field(default_factory=set)  # placements of passes that are under way
    _asked: dict[StackCluster, list[asyncio.Future[None]]] = field(
        default_factory=dict
    )  # futures of tasks that wait for a pass
    _alone: set[StackCluster] = field(
        default_factory=set
    )  # placements that are passed over alone after an unexpected error

    def workers(self, hooks: ReconcileHooks, resync: float) -> list[Coroutine[Any, Any, None]]:
        """Return the tasks that work for ever.

        Everything is synced after about `resync` seconds, whatever the watches report.
        """
        return [self._regularly(resync), *(self._work(hooks) for _ in range(AT_ONCE))]

    def enqueue(self, pairs: Iterable[StackCluster]) -> None:
        for pair in pairs:
            self._queue.add(pair)

    def enqueue_clusters(self, *clusters: str) -> None:
        self.enqueue((ALL, cluster) for cluster in clusters)

    def enqueue_changed(self, stack: str, cluster: str) -> None:
        """Ask for a pass over a stack of which a watch reports a change, if git has it there."""
        current = self.current.evaluated
        if current is not None and (stack, cluster) in current.desired:
            self._queue.add((stack, cluster))

    def enqueue_after(self, pair: StackCluster, seconds: float = LOOK_AGAIN) -> None:
        self._queue.add_after(pair, seconds)

    def enqueue_rest(self, cluster: str) -> None:
        """Ask for a pass over the whole cluster, since a pass over a part of it could not decide."""
        apart = any(where == cluster for _, where in self._alone)  # no pass over the whole cluster looks at these
        self._queue.add_after((ALL, cluster), LOOK_AGAIN if apart else BUSY)

    async def wait_for_pass(self, pair: StackCluster) -> None:
        """Wait until a pass that began later than this call has looked at the placement."""
        finished = asyncio.get_running_loop().create_future()
        self._asked.setdefault(pair, []).append(finished)
        self._queue.add(pair)
        await finished

    def retry(self, pair: StackCluster) -> None:
        """Ask for a pass after a delay that grows with every failure."""
        self._queue.retry(pair)

    def forgive(self, pair: StackCluster) -> None:
        self._queue.forgive(pair)

    def take(self, current: EvaluatedCommit) -> None:
        """Take a new commit: placements that it does not have need no pass of their own."""
        self._alone = {pair for pair in self._alone if pair[0] in current.stacks and pair[1] in current.targets}

    async def _regularly(self, resync: float) -> None:
        """Ask for a pass over every cluster once in about `resync` seconds, behind all else that waits."""
        while True:
            await asyncio.sleep(resync * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            current = self.current.evaluated
            for cluster in current.targets if current else ():
                self._queue.add((ALL, cluster), LOW)

    async def _work(self, hooks: ReconcileHooks) -> None:
        while True:
            first = await self._queue.get()
            pairs = [first.key, *self._together_with(first.key)]
            began = time.monotonic()
            try:
                await self._pass(first.key[1], pairs, hooks)
            finally:
                for pair in pairs:
                    self._queue.done(pair)
                self.seconds.observe(time.monotonic() - began)

    def _together_with(self, first: StackCluster) -> list[StackCluster]:
        """Return what else waits for the same cluster, so that one pass looks at all of it."""
        if first[0] == ALL or first in self._alone:
            return []

        def fits(pair: StackCluster) -> bool:
            return pair[0] != ALL and pair[1] == first[1] and pair not in self._alone

        return [item.key for item in self._queue.take_also(fits, MOST)]

    async def _pass(self, cluster: str, pairs: list[StackCluster], hooks: ReconcileHooks) -> None:
        """Run a pass over stacks of a cluster, without those that another pass has or that need one alone."""
        current = self.current.evaluated
        stacks = None if (ALL, cluster) in pairs else {stack for stack, _ in pairs}
        target = current.target(cluster, stacks) if current else None
        if current is None or target is None:
            return  # it is not in git any more
        busy = target.stacks.intersection(stack for stack, where in self._busy if where == cluster)
        for stack in busy:  # another pass has it: the next one sees what that one did not
            self._queue.add_after((stack, cluster), BUSY)
        alone = {stack for stack, where in self._alone if where == cluster and len(target.stacks) > 1}
        for stack in alone & target.stacks:
            self._queue.add_after((stack, cluster), BUSY)
        target = without_stacks(target, busy | alone)
        if not target.stacks:
            return
        claimed = {(stack, cluster) for stack in target.stacks}
        self._busy |= claimed
        waiters = [waiter for pair in claimed for waiter in self._asked.pop(pair, ())]
        try:
            await hooks.reconcile(current, target)
            self._alone -= claimed
            for waiter in waiters:
                if not waiter.done():  # the waiting task may have given up
                    waiter.set_result(None)
        except Exception as problem:  # whatever it is, it is the error of one stack
            self._alone |= claimed
            if len(claimed) > 1:
                self._separate(claimed, problem)
            else:
                hooks.report_unexpected(current, next(iter(claimed)), problem)
        finally:
            self._busy -= claimed

    def _separate(self, pairs: Set[StackCluster], problem: Exception) -> None:
        """Have each of several stacks passed over alone, until that works."""
        log.debug("each stack of a pass by itself, after %r", problem)
        self.enqueue(sorted(pairs))
