"""Last results of passes, last reports of agents, and the reporter that passes them on.

Reports go to the writer of status records and to the notifier. While a newer commit has an error, every stack is
reported with that error, under that commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from fleet.bundle.publish import select_clusters
from fleet.errors import FleetError
from fleet.git.status_records import StatusRecord, StatusReport
from fleet.kube.client.errors import UnansweredError
from fleet.objects.desired import StackCluster
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import EvaluatedCommit
from fleet.serve.report.notify import Notifier
from fleet.serve.report.status import StatusWriter
from fleet.serve.rollback import PendingRollbacks
from fleet.sync.result import Result
from fleet.sync.rollout.gates import WELL
from fleet.sync.targets import ClusterTarget


@dataclass(slots=True)
class Results:
    """Last result of every placement that is reached from here, with the commit that it is about."""

    _last: dict[StackCluster, tuple[str, Result]] = field(default_factory=dict)

    def get(self, placement: StackCluster) -> Result | None:
        _, result = self._last.get(placement, ("", None))
        return result

    def put(self, commit: str, result: Result) -> None:
        self._last[result.stack, result.cluster] = (commit, result)

    def forget(self, placement: StackCluster) -> None:
        self._last.pop(placement, None)

    def all(self) -> list[Result]:
        return [result for _, result in self._last.values()]

    def of_stack(self, stack: str) -> list[Result]:
        return [result for result in self.all() if result.stack == stack]

    def failed_in(self, cluster: str) -> list[StackCluster]:
        """Return the placements in a cluster whose last pass met an error."""
        return [(result.stack, cluster) for result in self.all() if result.cluster == cluster and result.problem]

    def include(self, placements: Iterable[StackCluster]) -> bool:
        """Return whether every one of the placements was synced, or tried, with whichever commit."""
        return all(placement in self._last for placement in placements)

    def are_complete(self, current: EvaluatedCommit) -> bool:
        """Return whether every placement of a commit was synced, or tried, with that commit."""
        return all(self._last.get(placement, ("", None))[0] == current.commit for placement in current.desired)

    def is_applied(self, placement: StackCluster) -> bool:
        """Return whether a pass found the stack there as its commit wants it, or made it so."""
        result = self.get(placement)
        return result is not None and result.problem is None and not result.suspended

    def is_silent(self, cluster: str) -> bool:
        """Return whether a cluster did not answer the last pass over one of its stacks."""
        return any(isinstance(result.problem, UnansweredError) for result in self.all() if result.cluster == cluster)

    def forget_all_but(self, placements: Collection[StackCluster]) -> list[StackCluster]:
        """Forget all other placements; return those that were forgotten."""
        gone = [placement for placement in self._last if placement not in placements]
        for placement in gone:
            del self._last[placement]
        return gone

    def carry_over(self, before: str, after: str, changed: Collection[StackCluster]) -> list[Result]:
        """Let results of one commit hold for the next, except where it changes something; return those results.

        What no pass has synced with the commit before is still to be synced: its result says nothing about the next.
        """
        same = [
            result
            for placement, (commit, result) in self._last.items()
            if commit == before and placement not in changed
        ]
        for result in same:
            self.put(after, result)
        return same


@dataclass(frozen=True, slots=True)
class AgentNews:
    """Report of an agent about the current commit, and whether its cluster got something new since the last one."""

    report: StatusReport
    moved: bool


@dataclass(slots=True)
class AgentReports:
    """Last report of every placement that only an agent reaches."""

    _contents: dict[StackCluster, str] = field(default_factory=dict)
    _last: dict[StackCluster, StatusReport] = field(default_factory=dict)

    def take(self, current: EvaluatedCommit, records: Iterable[StatusRecord]) -> list[AgentNews]:
        """Take what agents report; return what is about this commit, for the notifications of changes."""
        clusters = select_clusters(current.evaluation, ())
        placements = {
            (name, cluster)
            for name, stack in current.stacks.items()
            for cluster in stack.clusters
            if cluster in clusters
        }
        self._contents = {pair: content for pair, content in self._contents.items() if pair in placements}
        self._last = {pair: report for pair, report in self._last.items() if pair in placements}
        news = []
        for record in records:
            pair = (record.stack, record.cluster)
            if pair in placements and record.wanted == current.revision:
                moved = self._contents.get(pair, record.content) != record.content
                self._contents[pair] = record.content
                self._last[pair] = StatusReport(*pair, record.wanted, record.sync, record.health, record.message)
                news.append(AgentNews(self._last[pair], moved))
        return news

    def of(self, stack: str, revision: str) -> list[StatusReport]:
        """Return what agents last reported about a stack, where it is about this commit."""
        return [report for pair, report in self._last.items() if pair[0] == stack and report.revision == revision]


@dataclass(slots=True)
class Reporter:
    """Reporter of one repository: makes reports of results, and passes them on."""

    current: CurrentCommit
    results: Results
    agents: AgentReports
    rollbacks: PendingRollbacks
    notifier: Notifier
    writer: StatusWriter | None  # None: no health is written into git

    @property
    def has_told_all(self) -> bool:
        """Return whether the status branch has all that the service observed.

        Anything else in it was then written by another program.
        """
        if self.writer is None:
            return False
        current = self.current.evaluated
        return current is None or (self.results.are_complete(current) and not self.writer.pending)

    def tell(self, results: Iterable[Result], revision: str, *, moved: bool = True) -> None:
        """Pass on what results say of a commit. `moved`: something was done or observed, see `Notifier.tell`."""
        current = self.current.evaluated
        if current is None:
            return
        reports = [self._add_rollback(current.report(result, revision)) for result in results]
        if self.writer is not None:
            self.writer.tell(current.files, *reports)
        self.notifier.tell(reports, moved=moved)

    def tell_of_pass(self, revision: str, result: Result) -> None:
        """Pass on a result for the commit that was synced, or the error of a newer commit that cannot be used."""
        broken = self.current.broken_revision
        if broken and not result.problem:
            self.tell([replace(result, problem=self.current.error)], broken)
        else:
            self.tell([result], revision)

    def tell_of_agents(self, news: Iterable[AgentNews]) -> None:
        """Pass on to the notifier what agents report; their status records are their own."""
        for entry in news:
            self.notifier.tell([entry.report], moved=entry.moved)

    def tell_of_error(self, error: FleetError, revision: str) -> None:
        """Report the error of a newer commit on every stack."""
        self.tell([replace(result, problem=error) for result in self.results.all()], revision)

    def tell_of_new_commit(self, newest: EvaluatedCommit) -> None:
        """Have status records removed of what the commit does not have; report stacks that were never placed yet."""
        if self.writer is not None:
            self.writer.set_removal(newest.files, newest.find_removed)
        if unplaced := newest.unplaced_results():
            self.tell(unplaced, newest.revision)

    def tell_of_cluster(self, current: EvaluatedCommit, target: ClusterTarget, results: Iterable[Result]) -> None:
        """Have status records removed of stacks that a pass over the whole cluster neither found nor wants there."""
        if self.writer is None or current.rendered:
            return
        staying = {result.stack for result in results if result.leaving and (result.problem or result.suspended)}
        stacks = {desired.stack for desired in target.desired} | staying
        self.writer.set_present_stacks(target.cluster.name, frozenset(stacks))

    def tell_left(self, current: EvaluatedCommit, placement: StackCluster) -> None:
        """Have the status record of a stack removed that is no longer placed in a cluster."""
        if self.writer is not None:
            self.writer.drop_stack(current.files, placement)

    def reports(self, current: EvaluatedCommit, stack: str) -> list[StatusReport]:
        """Return the status of a stack at this commit in every cluster, from passes and from agents."""
        reports = [current.report(result, current.revision) for result in self.results.of_stack(stack)]
        return [*reports, *self.agents.of(stack, current.revision)]

    async def tell_of_rollback(self, current: EvaluatedCommit, stack: str) -> None:
        """Report what became of the rollback of a stack, although nothing else about it is new."""
        self.tell(self.results.of_stack(stack), current.revision)
        self.notifier.announce([self._add_rollback(report) for report in self.reports(current, stack)])
        if self.writer is not None:
            await self.writer.flush()  # before reports of the next commit replace these

    def _add_rollback(self, report: StatusReport) -> StatusReport:
        """Return the report with what is known of the stack's rollback, if it is to be rolled back."""
        message = self.rollbacks.message(report.stack, report.revision)
        is_about_it = message and (report.message or report.health not in WELL)
        return replace(report, message="; ".join(filter(None, (report.message, message)))) if is_about_it else report
