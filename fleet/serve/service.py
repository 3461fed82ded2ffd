"""Service of one repository: keeps every stack in every cluster as the branch's newest valid commit says.

A new commit, a change that a watch reports, a retry after a failure and the regular resync all only ask for a pass; see
`fleet.serve.reconcile`. Nothing that matters is stored only in this process; see the package.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import FleetError
from fleet.forge.forge import Event, PushEvent
from fleet.git import refs
from fleet.git.repository import Mirror
from fleet.kube.concurrency import end_tasks
from fleet.kube.identity import program_name
from fleet.serve.background import UnexpectedError, run_forever, run_in_thread
from fleet.serve.branch import BranchFollower, CurrentCommit
from fleet.serve.bundles import BundlePublisher
from fleet.serve.clusters import ClusterConnections
from fleet.serve.commits import CommitReader, EvaluatedCommit, EvaluatingReader, FollowedRepository
from fleet.serve.failure import FailedRollouts
from fleet.serve.options import ServeOptions
from fleet.serve.queue import LOOK_AGAIN, ReconcileQueue
from fleet.serve.reconcile import StackReconciler
from fleet.serve.report.metrics import Metrics
from fleet.serve.report.notify import Notifier
from fleet.serve.report.previews import Previews
from fleet.serve.report.reporter import AgentReports, Reporter, Results
from fleet.serve.report.status import StatusWriter
from fleet.serve.rollback import PendingRollbacks
from fleet.serve.rollout import RolloutTracker
from fleet.serve.safety import read_status_records
from fleet.sync.rollout import approvals

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Service:
    """Service of one repository: `await Service(origin, options, metrics).run()`; `hear` takes events of its forge."""

    origin: FollowedRepository
    options: ServeOptions
    metrics: Metrics
    reading: CommitReader = field(default_factory=EvaluatingReader)
    current: CurrentCommit = field(default_factory=CurrentCommit)
    reporter: Reporter = field(init=False)
    _follower: BranchFollower = field(init=False)
    _publisher: BundlePublisher = field(init=False)
    _failures: FailedRollouts = field(init=False)
    _reconciler: StackReconciler = field(init=False)
    _previews: Previews | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)  # set when the repository is to be looked at now
    _reported: str | None = None  # the tip of the status branch that was last read

    def __post_init__(self) -> None:
        """Make the collaborators, each with those that it works with."""
        origin, options, metrics, current = self.origin, self.options, self.metrics, self.current
        metrics.begin_repository(str(origin))
        self._follower = BranchFollower(origin, current, self.reading, options.signers, metrics.fetches)
        queue = ReconcileQueue(current, metrics.seconds.labels(str(origin)))
        connections, tracker, agents = ClusterConnections(options, queue), RolloutTracker(), AgentReports()
        notifier = Notifier(origin, options, current, metrics.outside)
        self.reporter = Reporter(current, Results(), agents, PendingRollbacks(), notifier, self._make_writer())
        self._publisher = BundlePublisher(options, current, tracker, agents)
        self._failures = FailedRollouts(
            origin,
            options,
            metrics,
            current,
            queue,
            connections,
            tracker,
            self._publisher,
            self.reporter,
            self._wake,
        )
        self._reconciler = StackReconciler(
            origin,
            options,
            metrics,
            current,
            queue,
            connections,
            tracker,
            self._publisher,
            self._failures,
            self.reporter,
        )
        if options.previews:
            self._previews = Previews(origin, options, current, metrics.previews)

    def _make_writer(self) -> StatusWriter | None:
        options = self.options
        if not options.status:
            return None
        program = program_name(options.name)
        return StatusWriter(options.settle, options.every, program, str(self.origin), self.metrics.told)

    @property
    def ready(self) -> bool:
        """Return whether the service read the repository and synced, or tried to sync, every placement of it."""
        current = self.current.evaluated
        if current is None:
            return self.current.error is not None
        return self.reporter.results.include(current.desired)

    def hear(self, event: Event) -> None:
        """Take an event of the forge, only as a reason to look at the repository."""
        if isinstance(event, PushEvent):
            self._wake.set()
        if self._previews is not None:
            self._previews.hear(event)

    def page(self, path: str) -> bytes | None:
        """Return the preview page at a path; None if it is not a page of this repository."""
        return self._previews.pages.find(path) if self._previews else None

    def health(self) -> Iterable[tuple[tuple[str, ...], float]]:
        """Return the health of every stack in every cluster, as samples of a metric."""
        return self._reconciler.health.health()

    async def run(self) -> None:
        """Run until cancelled."""
        reconciler, reporter = self._reconciler, self.reporter
        with self.reading.open():
            jobs: list[Coroutine[Any, Any, None]] = [self._follow()]
            jobs += reconciler.queue.workers(reconciler, self.options.resync)
            jobs.append(run_forever("telling others of health", reporter.notifier.run))
            jobs.append(run_forever("rendering for agents", lambda: self._publisher.run(reconciler)))
            if reporter.writer is not None:
                jobs.append(run_forever("writing health into git", reporter.writer.run))
            tasks = [asyncio.create_task(job) for job in jobs]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                await end_tasks(*tasks)
                await reconciler.connections.close()

    async def last_words(self) -> None:
        """Write the status records that are not in git yet, at an orderly end."""
        writer = self.reporter.writer
        if writer is not None and writer.pending:
            await writer.flush()

    async def _follow(self) -> None:
        """Look at the repository for ever: regularly, and when called. Previews are made meanwhile."""
        mirror = await run_in_thread(self.origin.mirror, self.options.cache)
        async with contextlib.AsyncExitStack() as stack:
            if self._previews is not None:
                previewing = asyncio.create_task(self._previews.run(mirror))
                stack.push_async_callback(end_tasks, previewing)
            while True:
                self._wake.clear()
                await self._look(mirror)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.options.poll * random.uniform(0.8, 1.2)):  # noqa: S311 - jitter
                        await self._wake.wait()

    async def _look(self, mirror: Mirror) -> None:
        """Read what is new in the repository, and roll back what is due; an error leaves the last valid commit."""
        try:
            await self._read_news(mirror)
            await self._failures.roll_back(mirror, self.reading.pool)
        except FleetError as problem:
            self._fail(problem)
        except Exception as problem:  # the service keeps applying the commit before
            log.exception("%s cannot be followed", self.origin)
            self._follower.read_again(LOOK_AGAIN)
            self._fail(UnexpectedError(str(self.origin), problem))

    async def _read_news(self, mirror: Mirror) -> None:
        """Read what is new in the repository, and take its newest commit if it is valid."""
        with self._follower.asking():
            status = self._status_ref()
            tips = await self._follower.tips(mirror, *status)
            await self._hear_beside(mirror, tips, *status)
        commit = await self._follower.newest(mirror, tips[self.origin.ref], self._check)
        current = self.current
        if commit is None:
            if current.evaluated is not None and not current.broken_revision:
                current.error = None  # the remote had not answered, and does again
            return
        self._reconciler.take_commit(commit)
        trouble = commit.rendered.index.trouble if commit.rendered else None
        if trouble is not None:
            self._fail(FleetError(trouble.message))

    async def _hear_beside(self, mirror: Mirror, tips: Mapping[str, str], *status: str) -> None:
        """Read what is stored beside the branch: wave approvals, and the status records of agents."""
        tracker = self._reconciler.tracker
        if tips.get(approvals.REF) != tracker.approvals_tip:
            wave_approvals = await run_in_thread(approvals.read_approvals, mirror.repository, mirror.address)
            tracker.take_approvals(wave_approvals, tips.get(approvals.REF))
            self._reconciler.queue.enqueue(tracker.waiting())
            self._publisher.call()
        if status and tips.get(*status) != self._reported:
            self._reported = tips.get(*status)
            self._publisher.call()

    def _status_ref(self) -> tuple[str, ...]:
        """Return the ref that agents report to; empty if there are no agents."""
        current = self.current.evaluated
        if current is None or not self._publisher.clusters:
            return ()
        return (refs.branch_ref(current.files.repository.settings.git.status_branch),)

    async def _check(self, commit: EvaluatedCommit) -> None:
        """Raise PolicyError if the commit removed more than it may; at the first one, read the status records too."""
        current, has_told_all = self.current.evaluated, self.reporter.has_told_all
        await run_in_thread(
            self.reading.check, commit, current, lambda: read_status_records(commit.files) if has_told_all else []
        )
        if current is None and self.options.status:
            self._reconciler.tracker.take_records(await run_in_thread(read_status_records, commit.files))

    def _fail(self, problem: FleetError) -> None:
        """Report an error of the newest commit, which cannot be used; the service keeps applying the last valid one."""
        current = self.current
        if str(problem) == str(current.error):
            return
        current.error = problem
        log.error("%s: %s", self.origin, problem, extra={"repository": str(self.origin), "revision": current.tip[:12]})
        if revision := current.broken_revision:
            self.reporter.tell_of_error(problem, revision)
            self._publisher.trouble(revision, problem)
