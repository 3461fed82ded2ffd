"""Which stacks are looked at together, and that no two passes have the same one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.git.repository import GitRepository
from fleet.kube.concurrency import end_tasks
from fleet.kube.runtime.metrics import Histogram
from fleet.objects.desired import Desired, StackCluster
from fleet.repository import Repository
from fleet.repository.settings import Settings
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import EvaluatedCommit
from fleet.serve.queue import ReconcileQueue
from fleet.sync.source import Commit
from fleet.sync.targets import ClusterTarget

HERE = Source("stacks/all.py", 1)
NAMES = ("billing", "orders", "search")
ROLLOUT = RolloutData((), "0s", "15m", 1)
STACKS = tuple(
    StackResult(name, HERE, ("eu", "us"), ROLLOUT, tuple(Desired(name, one, ()) for one in ("eu", "us")))
    for name in NAMES
)
CLUSTERS = tuple(ClusterData(name, {}, None, None, False, HERE) for name in ("eu", "us"))
WANTED = EvaluatedCommit(
    Commit(Repository(Path("/nowhere"), Settings()), GitRepository(Path("/nowhere")), "a" * 40, ""),
    Evaluation(CLUSTERS, STACKS),
)
Seen = tuple[str, ...]


@dataclass
class Looks:
    """What passes were about, in order; those with a stack of `bad` fail, those of `slow` wait for `go`."""

    bad: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    seen: list[tuple[str, Seen]] = field(default_factory=list)
    broken: list[StackCluster] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: Counter[StackCluster] = field(default_factory=Counter)

    async def reconcile(self, current: EvaluatedCommit, target: ClusterTarget) -> None:
        cluster = target.cluster.name
        pairs = [(stack, cluster) for stack in target.stacks]
        self.seen.append((cluster, tuple(sorted(target.stacks))))
        self.under_way.update(pairs)
        assert max(self.under_way.values()) == 1, "two passes have one stack"
        try:
            if target.stacks & self.slow:
                await self.go.wait()
            if target.stacks & self.bad:
                raise ZeroDivisionError
        finally:
            self.under_way.subtract(pairs)

    def report_unexpected(self, current: EvaluatedCommit, placement: StackCluster, error: Exception) -> None:
        self.broken.append(placement)

    async def until(self, *wanted: tuple[str, Seen]) -> None:
        async with asyncio.timeout(30):
            while not all(self.seen.count(one) >= wanted.count(one) for one in wanted):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)


def queue() -> ReconcileQueue:
    return ReconcileQueue(CurrentCommit(WANTED), Histogram("seconds", "", registry=None))


def test_what_waits_for_one_cluster_is_one_pass_and_clusters_do_not_wait_for_each_other() -> None:
    async def run() -> list[tuple[str, Seen]]:
        looks = Looks(slow={"orders"})
        passes = queue()
        passes.enqueue([("orders", "eu"), ("search", "eu"), ("billing", "us")])
        tasks = [asyncio.create_task(one) for one in passes.workers(looks, resync=600)]
        await looks.until(("eu", ("orders", "search")), ("us", ("billing",)))
        await end_tasks(*tasks)
        return looks.seen

    assert len(asyncio.run(run())) == 2


def test_what_a_pass_has_is_left_out_by_the_next_and_looked_at_after_it() -> None:
    async def run() -> None:
        looks = Looks(slow={"orders"})
        passes = queue()
        tasks = [asyncio.create_task(one) for one in passes.workers(looks, resync=600)]
        passes.enqueue([("orders", "eu")])
        await looks.until(("eu", ("orders",)))
        passes.enqueue_clusters("eu")
        await looks.until(("eu", ("billing", "search")))
        looks.slow.clear()
        looks.go.set()
        await looks.until(("eu", ("orders",)), ("eu", ("orders",)))
        await end_tasks(*tasks)

    asyncio.run(run())


def test_a_stack_that_breaks_a_pass_is_passed_over_alone_until_it_works() -> None:
    async def run() -> None:
        looks = Looks(bad={"orders"})
        passes = queue()
        tasks = [asyncio.create_task(one) for one in passes.workers(looks, resync=600)]
        passes.enqueue_clusters("eu")
        await looks.until(("eu", NAMES), *(("eu", (name,)) for name in NAMES))
        assert looks.broken == [("orders", "eu")]
        passes.enqueue_clusters("eu")
        await looks.until(("eu", ("billing", "search")))
        looks.bad.clear()
        passes.enqueue([("orders", "eu")])
        await looks.until(("eu", ("orders",)), ("eu", ("orders",)))
        passes.enqueue_clusters("eu")
        await looks.until(("eu", NAMES), ("eu", NAMES))
        assert looks.broken[-1] == ("orders", "eu")
        await end_tasks(*tasks)

    asyncio.run(run())


def test_everything_is_looked_at_from_time_to_time_and_what_is_not_in_git_is_not() -> None:
    async def run() -> list[tuple[str, Seen]]:
        looks = Looks()
        passes = queue()
        passes.enqueue([("gone", "eu"), ("orders", "nowhere")])
        tasks = [asyncio.create_task(one) for one in passes.workers(looks, resync=0.05)]
        await looks.until(("eu", NAMES), ("us", NAMES), ("eu", NAMES))
        await end_tasks(*tasks)
        return looks.seen

    assert set(asyncio.run(run())) == {("eu", NAMES), ("us", NAMES)}
