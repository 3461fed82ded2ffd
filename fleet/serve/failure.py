"""Rollouts that failed in a cluster: found from what is observed, rolled back where their stack says so, reported.

`fleet.serve.rollout` says which cluster failed, `fleet.serve.rollback` makes the commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from fleet.errors import FleetError
from fleet.evaluate.pool import Pool
from fleet.git.repository import Mirror
from fleet.serve.background import run_in_thread
from fleet.serve.branch import CurrentCommit
from fleet.serve.bundles import BundlePublisher
from fleet.serve.clusters import ClusterConnections
from fleet.serve.commits import EvaluatedCommit, FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.queue import LOOK_AGAIN, ReconcileQueue
from fleet.serve.report.metrics import Metrics, tell_rollback
from fleet.serve.report.reporter import Reporter
from fleet.serve.rollback import FollowedBranch, Illness, RollbackOutcome, roll_back
from fleet.serve.rollout import RolloutTracker
from fleet.sync.rollout.gates import WELL

log = logging.getLogger(__name__)


@dataclass(slots=True)
class FailedRollouts:
    """Rollouts of one repository that failed and are to be rolled back.

    `wake` is set when the branch has to be looked at: a rollback is due, or one was pushed.
    """

    origin: FollowedRepository
    options: ServeOptions
    metrics: Metrics
    current: CurrentCommit
    queue: ReconcileQueue
    connections: ClusterConnections
    tracker: RolloutTracker
    publisher: BundlePublisher
    reporter: Reporter
    wake: asyncio.Event

    def consider(self, current: EvaluatedCommit, stack: str) -> None:
        """Ask for a rollback if the stack's rollout failed in a cluster, else for passes until that is known."""
        if self._find(current, stack) is not None and self.reporter.rollbacks.ask(stack, current.revision):
            self.wake.set()
        desired = current.stacks.get(stack)
        if desired is not None and desired.rollout.on_failure == "rollback":
            for cluster, after in self.tracker.failing_clusters(current, desired).items():
                self.queue.enqueue_after((stack, cluster), after)

    async def roll_back(self, mirror: Mirror, pool: Pool | None) -> None:
        """Roll back the stacks that are due, where the branch is still at the commit that failed.

        Passes ask again for the rest.
        """
        current, due = self.current.evaluated, self.reporter.rollbacks.due
        if not due or current is None or current.revision != self.current.tip or not pool:
            return
        direct = not (self.options.signers or self._must_be_approved(current))
        followed = FollowedBranch(self.origin, mirror, pool)
        for stack in sorted(due):
            illness = self._find(current, stack)
            if illness is None:  # another commit came, or the stack is healthy again
                due.discard(stack)
                continue
            lasts = self._observe_again(current, stack, illness.cluster)
            try:
                outcome = await run_in_thread(roll_back, followed, current, stack, illness, direct=direct, lasts=lasts)
            except FleetError as problem:
                self.metrics.rollbacks.labels(str(self.origin), "failed").inc()
                log.warning("%s: it could not be rolled back: %s", stack, problem.message, extra={"stack": stack})
                continue
            if outcome is None:
                self.wake.set()  # the branch has moved on: look at that first
                return
            await self._report(current, stack, outcome, illness.why)

    def _find(self, current: EvaluatedCommit, name: str) -> Illness | None:
        """Return where and why the rollout of a stack failed and must be rolled back; None if it need not be."""
        stack = current.stacks.get(name)
        if stack is None or stack.rollout.on_failure != "rollback":
            return None
        failure = self.tracker.find_failure(current, stack)
        if failure is None:
            return None
        cluster, health = failure
        reports = {report.cluster: report for report in self.reporter.reports(current, name)}
        message = reports[cluster].message if cluster in reports else ""
        why = f"{cluster} has {current.revision[:8]} and is {health}" + (f": {message}" if message else "")
        result = self.reporter.results.get((name, cluster))
        objects = [obj for obj in result.objects if obj.state not in WELL] if result is not None else []
        worst = [obj for obj in objects if obj.state == "Degraded"]
        return Illness(cluster, why, tuple(worst or objects))

    def _must_be_approved(self, current: EvaluatedCommit) -> bool:
        return self.options.require_approved or current.files.repository.settings.approval.required

    def _observe_again(self, current: EvaluatedCommit, stack: str, cluster: str) -> Callable[[], bool]:
        """Return a function that tells the thread which is about to push whether the rollout still counts as failed.

        It has the cluster observed again. A cluster that cannot be observed is not known to have failed.
        """
        loop = asyncio.get_running_loop()

        async def observe() -> bool:
            publisher = self.publisher
            observation = (
                publisher.look() if cluster in publisher.clusters else self.queue.wait_for_pass((stack, cluster))
            )
            try:
                async with asyncio.timeout(LOOK_AGAIN):
                    await observation
            except TimeoutError:
                return False
            illness = self._find(current, stack) if current is self.current.evaluated else None
            return illness is not None and illness.cluster == cluster

        return lambda: asyncio.run_coroutine_threadsafe(observe(), loop).result()

    async def _report(self, current: EvaluatedCommit, stack: str, outcome: RollbackOutcome, why: str) -> None:
        """Report the outcome of a rollback in the log, the clusters, git and notifications."""
        self.reporter.rollbacks.note(stack, current.revision, outcome)
        if not outcome.outcome:
            return
        self.metrics.rollbacks.labels(str(self.origin), outcome.outcome).inc()
        about = {"repository": str(self.origin), "stack": stack, "revision": current.revision[:12]}
        log.warning("%s: %s; %s", stack, why, outcome.message, extra=about)
        for result in self.reporter.results.of_stack(stack):
            connection = self.connections.get(result.cluster)
            if connection is not None:
                tell_rollback(connection.events, stack, outcome.outcome, f"{why}; {outcome.message}")
        await self.reporter.tell_of_rollback(current, stack)
        if outcome.outcome == "pushed":
            self.wake.set()
