"""Reconciler of one service: what a new commit asks for, one pass over stacks of a cluster, and what follows from it.

A pass is `fleet sync` of some stacks of one cluster, without waiting for health: the next pass observes it. Its results
are kept and reported. They ask for further passes: over stacks that waited for just that, that failed, or that move.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from fleet.approval.gate import ApprovalCheck
from fleet.errors import AccessError, FleetError
from fleet.evaluate.result import ClusterData
from fleet.kube.client.client import Client
from fleet.kube.client.errors import NoRightError
from fleet.objects.desired import StackCluster
from fleet.plan import Plan
from fleet.plan.budget import DeletionBudget
from fleet.plan.drift import drift_error, drift_steps
from fleet.plan.inventory import Suspension
from fleet.serve.background import UnexpectedError, run_in_thread
from fleet.serve.branch import CurrentCommit
from fleet.serve.bundles import BundlePublisher, PublisherHooks
from fleet.serve.clusters import ClusterConnections, kinds_of
from fleet.serve.commits import EvaluatedCommit, FollowedRepository, changed_placements
from fleet.serve.failure import FailedRollouts
from fleet.serve.options import ServeOptions
from fleet.serve.queue import LOOK_AGAIN, ReconcileQueue
from fleet.serve.report.metrics import HealthLog, Metrics, tell_cluster
from fleet.serve.report.reporter import AgentNews, Reporter
from fleet.serve.rollout import RolloutTracker
from fleet.serve.safety import ApplyCheck, DeletionLedger, PartlySeenError
from fleet.sync.commit import CommitOptions, run_options
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.progress import NoProgress
from fleet.sync.report import sync_word
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout.order import is_rollout
from fleet.sync.run import sync_fleet
from fleet.sync.suspension import SuspensionLookup, suspensions_elsewhere
from fleet.sync.targets import ClusterTarget

MOVING = frozenset({"Progressing", "Missing"})

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StackReconciler(PublisherHooks):
    """Reconciler of one repository: runs the passes that its queue asks for."""

    origin: FollowedRepository
    options: ServeOptions
    metrics: Metrics
    current: CurrentCommit
    queue: ReconcileQueue
    connections: ClusterConnections
    tracker: RolloutTracker
    publisher: BundlePublisher
    failures: FailedRollouts
    reporter: Reporter
    health: HealthLog = field(init=False)
    ledger: DeletionLedger = field(default_factory=DeletionLedger)
    suspensions: SuspensionLookup = field(init=False)

    def __post_init__(self) -> None:
        self.health = HealthLog(str(self.origin))
        self.suspensions = SuspensionLookup(self.reporter.results.is_silent)

    def take_commit(self, newest: EvaluatedCommit) -> None:
        """Make a commit the current one, and ask for passes over what it changes."""
        before, self.current.evaluated, self.current.error = self.current.evaluated, newest, None
        self._count_evaluated(before, newest)
        old_stacks = before.stacks if before else {}
        self.tracker.begin_rollouts(name for name, stack in newest.stacks.items() if stack != old_stacks.get(name))
        self.publisher.take()
        self._forget_removed(newest)
        self.ledger.begin_commit(newest.revision, newest.stacks, newest.targets)
        self.queue.take(newest)
        for connection in self.connections:
            connection.client.forget_discovery()
            if connection.cluster not in newest.evaluation.clusters:
                self.connections.retire(connection.cluster.name)
        changed = changed_placements(before, newest)
        if before is None or changed is None:
            self.queue.enqueue_clusters(*newest.targets)
            return
        self.queue.enqueue(changed)
        same = self.reporter.results.carry_over(before.commit, newest.commit, changed)
        self.tracker.carry_over([(result.stack, result.cluster) for result in same], before.commit, newest.commit)
        self.reporter.tell(same, newest.revision, moved=False)

    def _count_evaluated(self, before: EvaluatedCommit | None, newest: EvaluatedCommit) -> None:
        """Count the stacks that were evaluated, and log a new commit."""
        old_stacks = {id(stack) for stack in before.evaluation.stacks} if before else set()
        count = sum(id(stack) not in old_stacks for stack in newest.evaluation.stacks)
        self.metrics.evaluated.labels(str(self.origin)).inc(0 if newest.rendered else count)
        if before is None or before.revision != newest.revision:
            about = {"repository": str(self.origin), "revision": newest.revision[:12], "evaluated": count}
            how = "read" if newest.rendered else "evaluated"
            log.info("%s is %s; %d stacks %s", self.origin, newest.files.title, count, how, extra=about)

    def _forget_removed(self, newest: EvaluatedCommit) -> None:
        """Forget placements that the commit does not have, and report stacks that were never placed yet."""
        self.reporter.tell_of_new_commit(newest)
        for placement in self.reporter.results.forget_all_but(newest.desired):
            self.health.forget(placement)
            self.tracker.forget(placement)
            self.reporter.notifier.forget(*placement)

    async def reconcile(self, current: EvaluatedCommit, target: ClusterTarget) -> None:
        """Sync some stacks of one cluster, and do what follows from each result."""
        hooks = _ServiceHooks(self, current, target)
        flags = CommitOptions(self.options.kubeconfig, wait=False)
        options = replace(run_options(current.files, flags), lease_seconds=5.0)
        try:
            run = await sync_fleet([target], options, NoProgress(), hooks, revision=current.revision)
        finally:
            self.tracker.end_changes(hooks.begun)
        for remark in run.remarks:
            log.debug(remark)
        for result in run.results:
            self.note(self._commit_of(current, result), result)
        cluster = target.cluster.name
        if target.complete and cluster in run.looked_at and current is self.current.evaluated:
            self.reporter.tell_of_cluster(current, target, run.results)
        if any(_were_refused(result.problem) for result in run.results):
            self.connections.retire(cluster)  # with the next pass its credentials are read anew
        for stack in target.stacks - {result.stack for result in run.results if result.problem}:
            self.queue.forgive((stack, cluster))
        if current is self.current.evaluated:
            self._measure_lag(current)

    def report_unexpected(self, current: EvaluatedCommit, placement: StackCluster, error: Exception) -> None:
        """Report an unexpected error of a pass over this stack alone."""
        stack, cluster = placement
        log.error("%s on %s", stack, cluster, exc_info=error, extra={"stack": stack, "cluster": cluster})
        if placement in current.desired:
            self.note(current, Result(stack, cluster, problem=UnexpectedError(f"{cluster}: {stack}", error)))
        else:
            self.queue.retry(placement)

    def take_agent_news(self, news: Sequence[AgentNews]) -> None:
        """Take what agents have and report: it is passed on, and what waited for it may begin, or has failed."""
        self.reporter.tell_of_agents(news)
        self.queue.enqueue(self.tracker.waiting())
        current = self.current.evaluated
        if current is not None:
            for stack in current.stacks:
                self.failures.consider(current, stack)

    def note(self, current: EvaluatedCommit, result: Result) -> None:
        """Take the result of a pass over one stack: count it, report it, and ask for the passes that follow from it."""
        repaired = len(drift_steps(result.plan)) if result.plan and not result.problem else 0
        result = current.after(result)
        placement, is_done = (result.stack, result.cluster), not result.problem and not result.suspended
        if is_done:
            self.ledger.note_deleted(placement)
        self._count_pass(result, repaired)
        if result.leaving and is_done:
            self.reporter.results.forget(placement)
            self.reporter.tell_left(current, placement)
            log.info("%s is no longer placed on %s, and left running there", *placement)
        else:
            self._keep(current, result, repaired)
        self._enqueue_again(result)

    def _count_pass(self, result: Result, repaired: int) -> None:
        repository, done = str(self.origin), result.done.items()
        self.metrics.passes.labels(repository, sync_word(result.problem)).inc()
        self.metrics.writes.labels(repository).inc(sum(number for verb, number in done if verb.writes))
        self.metrics.repairs.labels(repository).inc(repaired)

    def _keep(self, current: EvaluatedCommit, result: Result, repaired: int) -> None:
        """Keep a result as the last one of its placement, ask for what it makes possible elsewhere, and report it."""
        placement, results = (result.stack, result.cluster), self.reporter.results
        before = results.get(placement)
        results.put(current.commit, result)
        if before is not None and before.problem and not result.problem:
            self.queue.enqueue(results.failed_in(result.cluster))  # they may work again, too
        if self.tracker.note(current, result):
            self.queue.enqueue(self.tracker.waiting(current.stacks, result.stack))
            self.publisher.call()
        self.failures.consider(current, result.stack)
        word, connection = sync_word(result.problem), self.connections.get(result.cluster)
        if self.health.turn(word, result, current.revision) and connection is not None:
            tell_cluster(connection.events, result, "Repaired" if repaired and result.done else word)
        self.reporter.tell_of_pass(current.revision, result)

    def _enqueue_again(self, result: Result) -> None:
        """Ask for another pass over a placement that waits, failed, is suspended or moves."""
        placement = (result.stack, result.cluster)
        if isinstance(result.problem, WaitingError):
            self.queue.enqueue_after(placement, self.tracker.retry_after.get(placement, LOOK_AGAIN))
        elif result.problem:
            self.queue.retry(placement)
        elif result.suspended or (result.health in MOVING and not result.leaving):
            self.queue.enqueue_after(placement)

    def _commit_of(self, current: EvaluatedCommit, result: Result) -> EvaluatedCommit:
        """Return the commit that a result is about: the newest, if it wants the same of this stack, else `current`."""
        newest, placement = self.current.evaluated, (result.stack, result.cluster)
        same = newest is not None and newest.desired.get(placement) == current.desired.get(placement)
        return newest if newest is not None and same else current

    def _measure_lag(self, current: EvaluatedCommit) -> None:
        """Measure the time from the commit to now, once every placement of it was synced or tried."""
        since = self.current.tip_seen
        if since and current.commit == self.current.tip and self.reporter.results.are_complete(current):
            self.metrics.lag.labels(str(self.origin)).observe(time.monotonic() - since)
            self.current.tip_seen = 0.0


def _were_refused(problem: FleetError | None) -> bool:
    """Return whether the cluster refused the credentials themselves.

    A missing right is the error of one stack, and a new client would not change it.
    """
    return isinstance(problem, AccessError) and not isinstance(problem, NoRightError)


class _ServiceHooks(SyncHooks):
    """Hooks of one pass: open connections, budgets kept over time, and turns of rollouts."""

    def __init__(self, reconciler: StackReconciler, current: EvaluatedCommit, target: ClusterTarget) -> None:
        self._reconciler, self._current, self._target = reconciler, current, target
        self.begun: Counter[StackCluster] = Counter()  # changes that this pass begins
        self.approval = None if current.rendered else self._make_check()

    def _make_check(self) -> ApplyCheck:
        """Return the check of a commit before its plans are applied."""
        current, reconciler = self._current, self._reconciler
        git = current.files.git
        gate = ApprovalCheck(current.files, current.evaluation, required=reconciler.options.require_approved)
        results, tracker = reconciler.reporter.results, reconciler.tracker
        return ApplyCheck(git, current.revision, gate, results.is_applied, tracker.record_of)

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        return self._reach(cluster)

    def _reach(self, cluster: ClusterData) -> AbstractAsyncContextManager[Client]:
        desired = (desired for placement, desired in self._current.desired.items() if placement[1] == cluster.name)
        return self._reconciler.connections.connect(cluster, kinds_of(desired))

    def check_budget(self, cluster: str, plans: Sequence[Plan], budget: DeletionBudget) -> None:
        """Raise PolicyError if the plans of a pass delete more than they may.

        Raise PartlySeenError, and ask for a pass over the rest of the cluster, if that has to be observed first.
        """
        wanted = {desired.stack: desired for desired in self._current.targets[cluster].desired}
        looked_at = {desired.stack for desired in self._target.desired}
        revision = self._current.revision
        try:
            self._reconciler.ledger.check(cluster, plans, budget, revision=revision, wanted=wanted, looked_at=looked_at)
        except PartlySeenError:
            self._reconciler.queue.enqueue_rest(cluster)
            raise

    def find_objection(self, result: Result) -> FleetError | None:
        """Return why the stack, or its rollout, forbids to carry out its plan now; None if it may be carried out."""
        stack, plan = self._current.stacks.get(result.stack), result.plan
        if stack is None or plan is None or plan.empty or plan.leaving:
            return None
        if not is_rollout(stack, plan):
            return drift_error(plan) if stack.drift == "report" else None
        return self._reconciler.tracker.find_objection(self._current, stack, plan.cluster, self.begun)

    async def read_suspensions(self, stacks: Sequence[str]) -> Mapping[str, Suspension]:
        current_stacks = [self._current.stacks[name] for name in stacks if name in self._current.stacks]
        clusters = self._current.evaluation.clusters
        elsewhere = suspensions_elsewhere(current_stacks, clusters, {self._target.cluster.name})
        return await self._reconciler.suspensions.everywhere(elsewhere, self._reach)

    async def judge(self, planned: list[Result]) -> list[Result]:
        return planned if self.approval is None else await run_in_thread(self.approval.judge, planned)
