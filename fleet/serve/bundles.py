"""Publisher of the bundles of clusters with agents, which renders with every commit and every report of an agent.

It is `fleet render --push` for ever. It reports the rollout states in those clusters to the rollout tracker, so that
clusters that are reached from here wait for them as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fleet.bundle.model import CommitError
from fleet.bundle.publish import (
    ObservedState,
    PublishOptions,
    PublishResult,
    publish_bundles,
    publish_error,
    select_clusters,
)
from fleet.bundle.reports import read_reports
from fleet.bundle.storage import delivery_time
from fleet.errors import FleetError
from fleet.git.refs import Address
from fleet.git.status import choose_remote
from fleet.git.status_records import StatusRecord
from fleet.kube.runtime.queue import Backoff
from fleet.objects.desired import StackCluster
from fleet.serve.background import run_in_thread
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import EvaluatedCommit
from fleet.serve.options import ServeOptions
from fleet.serve.report.reporter import AgentNews, AgentReports
from fleet.serve.rollout import RolloutTracker

SETTLE = 0.2  # seconds in which more calls may come
LOOK = 60.0  # seconds between two looks at repositories that agents report to: no event announces a change there

log = logging.getLogger(__name__)


class PublisherHooks:
    """What a service does with what the publisher reads. As it is, nothing."""

    def take_agent_news(self, news: Sequence[AgentNews]) -> None:
        """Take what agents report about the current commit; the tracker has their rollout states by then."""


@dataclass(slots=True)
class BundlePublisher:
    """Publisher of bundles: `call` asks for it, `run` publishes for ever."""

    options: ServeOptions
    current: CurrentCommit
    tracker: RolloutTracker
    agents: AgentReports
    _call: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: list[asyncio.Future[None]] = field(default_factory=list)  # futures of tasks that wait for the next run
    _trouble: CommitError | None = None
    _last_error: str = ""  # the last error, which is logged once
    _failures: int = 0
    _deliveries: dict[StackCluster, tuple[str, float]] = field(
        default_factory=dict
    )  # content of unhealthy placements, and when it was given

    def call(self) -> None:
        self._call.set()

    async def look(self) -> None:
        """Wait until a run that began later than this call has read what agents report."""
        finished = asyncio.get_running_loop().create_future()
        self._asked.append(finished)
        self.call()
        await finished

    def take(self) -> None:
        """Take a new, valid commit: render, and report no error any more."""
        self._trouble = None
        self._call.set()

    def trouble(self, revision: str, problem: FleetError) -> None:
        """Report a commit that cannot be used to the agents."""
        self._trouble = CommitError(revision, problem.message)
        self._call.set()

    @property
    def clusters(self) -> tuple[str, ...]:
        current = self.current.evaluated
        return select_clusters(current.evaluation, ()) if current else ()

    async def run(self, hooks: PublisherHooks) -> None:
        """Render for ever, whenever it is called or a delay is over."""
        after: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(after):
                    await self._call.wait()
            await asyncio.sleep(SETTLE)
            self._call.clear()
            current = self.current.evaluated
            after = None
            if current is not None and self.clusters:
                after = await self._once(current, hooks)
            elif current is not None:
                self.tracker.take_agent_states(current.revision, {}, {})
                self.agents.take(current, ())

    async def _once(self, current: EvaluatedCommit, hooks: PublisherHooks) -> float | None:
        """Render once; return the seconds until the next run, if nothing calls before."""
        waiters, self._asked = self._asked, []
        try:
            records = await run_in_thread(self._records, current)
            published = await run_in_thread(self._render, current, records)
            self._deliveries = await run_in_thread(self._find_dates, current, published)
            errors = {result.cluster: result.problem for result in published.results if result.problem}
            for cluster, problem in errors.items():
                await run_in_thread(self._tell, current, [cluster], problem)
        except FleetError as problem:
            self._failures += 1
            self._warn([problem])
            with contextlib.suppress(FleetError):
                await run_in_thread(self._tell, current, self.clusters, problem)
            return Backoff(first=1.0, most=300.0).delay(self._failures)
        self._failures = 0
        self._warn(list(errors.values()))
        given = {pair: at for pair, (_, at) in self._deliveries.items()}
        self.tracker.take_agent_states(current.revision, published.standings, given)
        hooks.take_agent_news(self.agents.take(current, records))
        for waiter in waiters:
            if not waiter.done():  # the waiting task may have given up
                waiter.set_result(None)
        for cluster, commit in published.written.items():
            log.info("%s is rendered for %s as %s", current.files.title, cluster, commit[:8])
        delays = (published.again, self.tracker.seconds_to_failure(current), LOOK if self.options.reports else None)
        return min((delay for delay in delays if delay is not None), default=None)

    def _find_dates(self, current: EvaluatedCommit, published: PublishResult) -> dict[StackCluster, tuple[str, float]]:
        """Return when unhealthy stacks that may be rolled back were given their content.

        Git is not asked about any other stack.
        """
        dates: dict[StackCluster, tuple[str, float]] = {}
        git = current.files.git
        for (name, cluster), state in published.standings.items():
            bundle = published.bundles.get(cluster)
            part = bundle.parts.get(name) if bundle else None
            if bundle is None or part is None or state.is_well or not state.has_it:
                continue
            if current.stacks[name].rollout.on_failure == "rollback":
                content, at = self._deliveries.get((name, cluster), ("", 0.0))
                same = content == part.content
                dates[name, cluster] = (part.content, at if same else delivery_time(git, bundle.commit, part) or 0.0)
        return dates

    def _render(self, current: EvaluatedCommit, records: Sequence[StatusRecord]) -> PublishResult:
        """Render and push the bundles that may be given to their clusters now."""
        observed = ObservedState(records, self.tracker.approvals, lambda pair: self.tracker.state(current, pair))
        options = PublishOptions(require_approved=self.options.require_approved, trouble=self._trouble)
        return publish_bundles(
            current.files, current.evaluation, options, _find_remote(current), observed, now=time.time()
        )

    def _records(self, current: EvaluatedCommit) -> list[StatusRecord]:
        """Read the status records of agents."""
        git, branch = current.files.git, current.files.repository.settings.git.status_branch
        return read_reports(git, _find_remote(current), self.options.reports, branch)

    def _tell(self, current: EvaluatedCommit, clusters: Iterable[str], problem: FleetError) -> None:
        """Write an error where agents of some clusters read their bundles."""
        git, settings = current.files.git, current.files.repository.settings.git
        error = self._trouble or CommitError(current.revision, problem.message)
        publish_error(git, _find_remote(current), settings.rendered, clusters, error)

    def _warn(self, problems: list[FleetError]) -> None:
        """Log the errors of a run, unless they are those of the last one."""
        message = "; ".join(problem.message for problem in problems)
        if message and message != self._last_error:
            log.error("not rendered for agents: %s", message)
        self._last_error = message


def _find_remote(current: EvaluatedCommit) -> Address | None:
    return choose_remote(current.files.remotes, current.files.repository.settings.git.remote)
