"""Early reads of clusters: what a run reads while the stacks are still evaluated.

Evaluation is the work of child processes, which this process waits for. So an event loop in a thread of its own
connects to the clusters and reads them as soon as the evaluation knows which ones there are. The run goes on in the
same loop, over the same connections.

A read that fails is forgotten: the run reads that cluster itself, and reports the error that it meets then. Where
stacks are applied as service accounts of their own, nothing is read early: only an account may say what it sees.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fleet.errors import FleetError
from fleet.evaluate.result import ClusterData
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.reading import EarlyRead, read_ahead
from fleet.sync.targets import ClusterTarget

T = TypeVar("T")
AT_ONCE = 32  # clusters that are read at the same time


@dataclass(slots=True)
class LoopThread:
    """Event loop in a thread of its own."""

    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the loop while this thread waits; return its result or raise its error."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[LoopThread]:
        """Yield a loop that runs. At the end of the block, whatever it still does is cancelled and waited for."""
        ready: Future[asyncio.AbstractEventLoop] = Future()

        def run_forever() -> None:
            with asyncio.Runner() as runner:
                ready.set_result(runner.get_loop())
                runner.get_loop().run_forever()

        thread = threading.Thread(target=run_forever, daemon=True)
        thread.start()
        loop = ready.result()
        try:
            yield cls(loop)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


@dataclass(slots=True)
class EarlyReads:
    """Early reads of one run. `begin` is for any thread, all else for the loop that the run is in."""

    loop: asyncio.AbstractEventLoop
    options: SyncOptions
    hooks: SyncHooks
    stacks: Collection[str] = ()  # that the user named; all if empty
    clusters: Collection[str] = ()
    _reads: dict[str, tuple[ClusterTarget, asyncio.Future[EarlyRead | None]]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def begin(self, clusters: Sequence[ClusterData]) -> None:
        """Begin to read these clusters, as far as the run is about them."""
        if not self.options.accounts:
            self.loop.call_soon_threadsafe(self._begin, clusters)

    async def take(self, target: ClusterTarget) -> EarlyRead | None:
        """Return what was read of a cluster; None if that is nothing, is too old, or was of another target."""
        early, reading = self._reads.get(target.cluster.name, (None, None))
        if early is None or reading is None or early.cluster != target.cluster or early.complete != target.complete:
            return None
        if not early.complete and early.stacks != target.stacks:
            return None
        read = await asyncio.shield(reading)
        return read if read and read.is_fresh else None

    def _begin(self, clusters: Sequence[ClusterData]) -> None:
        for cluster in clusters:
            if not cluster.pull and (not self.clusters or cluster.name in self.clusters):
                target = ClusterTarget(cluster, (), {}, frozenset(self.stacks), complete=not self.stacks)
                reading: asyncio.Future[EarlyRead | None] = self.loop.create_future()
                self._reads[cluster.name] = target, reading
                task = self.loop.create_task(self._read(target, reading))
                self._tasks.add(task)

    async def _read(self, target: ClusterTarget, reading: asyncio.Future[EarlyRead | None]) -> None:
        """Read the cluster, and then keep the connection for the run until the loop ends."""
        try:
            async with self.hooks.open_client(target.cluster, self.options) as client:
                async with self._limit:
                    reading.set_result(await read_ahead(client, target, self.options.claim))
                await asyncio.Event().wait()
        except FleetError:
            if not reading.done():
                reading.set_result(None)
        except Exception as error:  # a bug, for the run to raise
            if reading.done():
                raise
            reading.set_exception(error)
