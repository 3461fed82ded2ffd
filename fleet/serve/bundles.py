"""What clusters with agents are to have, kept up to date by the service: with every commit, and every report.

It is `fleet render --push` for ever. How the stacks are in those clusters is told to the order of things, so that
clusters that are reached from here wait for them as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
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
from fleet.bundle.reports import ReportRepository, read_reports
from fleet.bundle.storage import delivery_time
from fleet.errors import FleetError
from fleet.git.refs import Address
from fleet.git.status import choose_remote
from fleet.git.status_records import StatusRecord, StatusReport
from fleet.kube.runtime.queue import Backoff
from fleet.objects.desired import StackCluster
from fleet.serve.background import run_in_thread
from fleet.serve.commits import EvaluatedCommit
from fleet.serve.rollout import RolloutTracker

SETTLE = 0.2  # seconds in which more may come
LOOK = 60.0  # seconds between two looks at repositories that are only reported to: nothing tells of news there

log = logging.getLogger(__name__)


@dataclass(slots=True)
class BundlePublisher:
    """`call` at any time; `run` renders. `done` is called when more may be known than before."""

    current: Callable[[], EvaluatedCommit | None]
    order: RolloutTracker
    done: Callable[[], None]
    heard: Callable[[StatusReport, bool], None] = lambda report, moved: (
        None
    )  # an agent's word, and whether it got something
    reports: tuple[ReportRepository, ...] = ()  # where else agents report
    require_approved: bool = False
    _call: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: list[asyncio.Future[None]] = field(default_factory=list)  # by those who wait for the next look
    _trouble: CommitError | None = None
    _said: str = ""  # the last problem, which is logged once
    _failures: int = 0
    _contents: dict[StackCluster, str] = field(default_factory=dict)
    _given: dict[StackCluster, tuple[str, float]] = field(
        default_factory=dict
    )  # since when what is not well has its content
    _words: dict[StackCluster, StatusReport] = field(default_factory=dict)  # the last that agents said

    def call(self) -> None:
        self._call.set()

    async def look(self) -> None:
        """Returns when a look that began later than this has heard what agents say."""
        looked = asyncio.get_running_loop().create_future()
        self._asked.append(looked)
        self.call()
        await looked

    def take(self) -> None:
        """There is a new commit, and a good one."""
        self._trouble = None
        self._call.set()

    def trouble(self, revision: str, problem: FleetError) -> None:
        """A commit that is of no use: agents are to know."""
        self._trouble = CommitError(revision, problem.message)
        self._call.set()

    @property
    def clusters(self) -> tuple[str, ...]:
        current = self.current()
        return select_clusters(current.evaluation, ()) if current else ()

    async def run(self) -> None:
        after: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(after):
                    await self._call.wait()
            await asyncio.sleep(SETTLE)
            self._call.clear()
            current = self.current()
            after = None
            if current is not None and self.clusters:
                after = await self._once(current)
            elif current is not None:
                self.order.hear_of(current.revision, {}, {})
                self.hear(current, ())

    async def _once(self, current: EvaluatedCommit) -> float | None:
        """Seconds until the next time, if nothing calls before."""
        asked, self._asked = self._asked, []
        try:
            records = await run_in_thread(self._records, current)
            found = await run_in_thread(self._render, current, records)
            self._given = await run_in_thread(self._dated, current, found)
            refused = {one.cluster: one.problem for one in found.results if one.problem}
            for cluster, problem in refused.items():
                await run_in_thread(self._tell, current, [cluster], problem)
        except FleetError as problem:
            self._failures += 1
            self._warn([problem])
            with contextlib.suppress(FleetError):
                await run_in_thread(self._tell, current, self.clusters, problem)
            return Backoff(first=1.0, most=300.0).delay(self._failures)
        self._failures = 0
        self._warn(list(refused.values()))
        self.order.hear_of(current.revision, found.standings, {pair: at for pair, (_, at) in self._given.items()})
        self.hear(current, records)
        self.done()
        for one in asked:
            if not one.done():  # whoever waited may have given up
                one.set_result(None)
        for cluster, commit in found.written.items():
            log.info("%s is rendered for %s as %s", current.files.title, cluster, commit[:8])
        times = (found.again, self.order.late(current), LOOK if self.reports else None)
        return min((one for one in times if one is not None), default=None)

    def hear(self, current: EvaluatedCommit, records: Iterable[StatusRecord]) -> None:
        """What agents say about this commit, for those whom the service tells of turns."""
        clusters = select_clusters(current.evaluation, ())
        here = {(name, one) for name, stack in current.stacks.items() for one in stack.clusters if one in clusters}
        self._contents = {pair: one for pair, one in self._contents.items() if pair in here}
        self._words = {pair: one for pair, one in self._words.items() if pair in here}
        for one in records:
            pair = (one.stack, one.cluster)
            if pair in here and one.wanted == current.revision:
                moved = self._contents.get(pair, one.content) != one.content
                self._contents[pair] = one.content
                self._words[pair] = StatusReport(*pair, one.wanted, one.sync, one.health, one.message)
                self.heard(self._words[pair], moved)

    def said(self, stack: str, revision: str) -> list[StatusReport]:
        """What agents last said about a stack, as far as it is about this commit."""
        return [one for pair, one in self._words.items() if pair[0] == stack and one.revision == revision]

    def _dated(self, current: EvaluatedCommit, found: PublishResult) -> dict[StackCluster, tuple[str, float]]:
        """When what may be taken back was given what it has and is not well with. Others are not asked about."""
        dates: dict[StackCluster, tuple[str, float]] = {}
        git = current.files.git
        assert git is not None  # noqa: S101 - it is of a mirror
        for (name, cluster), one in found.standings.items():
            told = found.bundles.get(cluster)
            part = told.parts.get(name) if told else None
            if told is None or part is None or one.is_well or not one.has_it:
                continue
            if current.stacks[name].rollout.on_failure == "rollback":
                content, at = self._given.get((name, cluster), ("", 0.0))
                same = content == part.content
                dates[name, cluster] = (part.content, at if same else delivery_time(git, told.commit, part) or 0.0)
        return dates

    def _render(self, current: EvaluatedCommit, records: Sequence[StatusRecord]) -> PublishResult:
        seen = ObservedState(records, self.order.approvals, lambda pair: self.order.standing(current, pair))
        wish = PublishOptions(require_approved=self.require_approved, trouble=self._trouble)
        return publish_bundles(current.files, current.evaluation, wish, _remote(current), seen, now=time.time())

    def _records(self, current: EvaluatedCommit) -> list[StatusRecord]:
        git, branch = current.files.git, current.files.repository.settings.git.status_branch
        assert git is not None  # noqa: S101 - it is of a mirror
        return read_reports(git, _remote(current), self.reports, branch)

    def _tell(self, current: EvaluatedCommit, clusters: Iterable[str], problem: FleetError) -> None:
        git, settings = current.files.git, current.files.repository.settings.git
        assert git is not None  # noqa: S101
        said = self._trouble or CommitError(current.revision, problem.message)
        publish_error(git, _remote(current), settings.rendered, clusters, said)

    def _warn(self, problems: list[FleetError]) -> None:
        said = "; ".join(one.message for one in problems)
        if said and said != self._said:
            log.error("not rendered for agents: %s", said)
        self._said = said


def _remote(current: EvaluatedCommit) -> Address | None:
    return choose_remote(current.files.remotes, current.files.repository.settings.git.remote)
