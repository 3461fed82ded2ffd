"""Service of one repository: keeps every stack in every cluster as the branch's newest valid commit says.

A new commit, a change that a watch reports, a retry after a failure and the regular resync all only ask for a pass. A
pass is `fleet sync` of some stacks of one cluster, without waiting for health: the next pass observes it. Nothing that
matters is stored only in this process; see the package.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.approval.gate import ApprovalCheck
from fleet.errors import AccessError, FleetError
from fleet.evaluate.result import ClusterData
from fleet.forge.forge import Event, PushEvent
from fleet.git import refs
from fleet.git.repository import Mirror
from fleet.git.status_records import StatusReport
from fleet.kube.client.client import Client
from fleet.kube.client.errors import NoRightError, UnansweredError
from fleet.kube.concurrency import end_tasks
from fleet.kube.identity import program_name
from fleet.objects.desired import StackCluster
from fleet.plan import Plan, RepositoryOwnership
from fleet.plan.budget import DeletionBudget
from fleet.plan.drift import drift_error, drift_steps
from fleet.plan.inventory import Suspension
from fleet.serve.background import UnexpectedError, run_forever, run_in_thread
from fleet.serve.bundles import BundlePublisher
from fleet.serve.clusters import ClusterConnections, kinds_of
from fleet.serve.commits import (
    BranchFollower,
    CommitReader,
    EvaluatedCommit,
    EvaluatingReader,
    FollowedRepository,
    budget_of,
    changed_placements,
)
from fleet.serve.options import ServeOptions
from fleet.serve.queue import LOOK_AGAIN, ReconcileQueue
from fleet.serve.report.metrics import HealthLog, Metrics, tell_cluster, tell_rollback
from fleet.serve.report.notify import Notifier
from fleet.serve.report.previews import Pages, Previews
from fleet.serve.report.status import StatusWriter
from fleet.serve.rollback import FollowedBranch, Illness, PendingRollbacks, RollbackOutcome, roll_back
from fleet.serve.rollout import RolloutTracker
from fleet.serve.safety import ApplyCheck, DeletionLedger, PartlySeenError, read_status_records
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.progress import NoProgress
from fleet.sync.report import sync_word
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout import approvals
from fleet.sync.rollout.gates import WELL
from fleet.sync.rollout.order import is_rollout
from fleet.sync.run import sync_fleet
from fleet.sync.suspension import SuspensionLookup, suspensions_elsewhere
from fleet.sync.targets import ClusterTarget

MOVING = frozenset({"Progressing", "Missing"})

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Service:
    """Service of one repository: `await Service(origin, manner, metrics).run()`; `hear` takes events of its forge."""

    origin: FollowedRepository
    manner: ServeOptions
    metrics: Metrics
    reading: CommitReader = field(default_factory=EvaluatingReader)
    current: EvaluatedCommit | None = None
    problem: FleetError | None = None  # of the newest commit, or of fetching it
    known: dict[StackCluster, tuple[str, Result]] = field(
        default_factory=dict
    )  # last results, each with the commit that was synced
    _following: BranchFollower = field(init=False)
    _passes: ReconcileQueue = field(init=False)
    _sites: ClusterConnections = field(init=False)
    _call: asyncio.Event = field(default_factory=asyncio.Event)
    _telling: StatusWriter = field(default_factory=StatusWriter)
    _turns: HealthLog = field(init=False)
    _order: RolloutTracker = field(default_factory=RolloutTracker)
    _spending: DeletionLedger = field(default_factory=DeletionLedger)
    _words: SuspensionLookup = field(init=False)
    _outside: Notifier = field(init=False)
    _previews: Previews | None = None
    _rollbacks: PendingRollbacks = field(default_factory=PendingRollbacks)
    _agents: BundlePublisher = field(init=False)
    _reported: str | None = None  # the tip of the status branch that was last read

    def __post_init__(self) -> None:
        self.metrics.begin_repository(str(self.origin))
        self._following = BranchFollower(self.origin, self.reading, self.manner.signers, self.metrics.fetches)
        self._passes = ReconcileQueue(
            lambda: self.current,
            self._sync,
            self._broken,
            lambda seconds: self.metrics.seconds.labels(str(self.origin)).observe(seconds),
        )
        self._turns = HealthLog(str(self.origin))
        self._words = SuspensionLookup(self._is_silent)
        self._outside = Notifier(
            self.origin,
            lambda: self.current,
            self.metrics.outside,
            self.manner.notify,
            self.manner.notify_secret,
            forge=self.manner.forge,
            scope=self.manner.scope,
        )
        if self.manner.previews:
            self._previews = Previews(
                self.origin,
                self.manner.kubeconfig,
                lambda: self.current,
                self.metrics.previews,
                self.manner.management,
                pages=Pages(self.manner.public_url),
                trusted=self.manner.trust_kubeconfigs,
                scope=self.manner.scope,
            )
        self._sites = ClusterConnections(
            self.manner.kubeconfig,
            self.manner.management,
            self._changed,
            self._turned,
            inside=self.manner.inside,
            trusted=self.manner.trust_kubeconfigs,
            scope=self.manner.scope,
        )
        self._agents = BundlePublisher(
            lambda: self.current,
            self._order,
            self._rendered,
            lambda report, moved: self._outside.tell([report], moved=moved),
            self.manner.reports,
            self.manner.require_approved,
        )
        self._telling = StatusWriter(
            self.manner.settle,
            self.manner.every,
            lambda count: self.metrics.told.labels(str(self.origin), "ok").inc(),
            lambda problem: self.metrics.told.labels(str(self.origin), "failed").inc(),
            by=program_name(self.manner.name),
        )

    @property
    def ready(self) -> bool:
        """Return whether the service read the repository and synced, or tried to sync, every placement of it."""
        if self.current is None:
            return self.problem is not None
        return all(pair in self.known for pair in self.current.desired)

    def hear(self, event: Event) -> None:
        """Take an event of the forge, only as a reason to look at the repository."""
        if isinstance(event, PushEvent):
            self._call.set()
        if self._previews is not None:
            self._previews.hear(event)

    def page(self, path: str) -> bytes | None:
        """Return the preview page at a path; None if it is not a page of this repository."""
        return self._previews.pages.find(path) if self._previews else None

    def health(self) -> Iterable[tuple[tuple[str, ...], float]]:
        """Return the health of every stack in every cluster, as samples of a metric."""
        return self._turns.health()

    async def run(self) -> None:
        """Run until cancelled."""
        with self.reading.opened():
            jobs: list[Coroutine[Any, Any, None]] = [self._follow(), *self._passes.workers(self.manner.resync)]
            jobs.append(run_forever("telling others of health", self._outside.run))
            jobs.append(run_forever("rendering for agents", self._agents.run))
            if self.manner.status:
                jobs.append(run_forever("writing health into git", self._telling.run))
            tasks = [asyncio.create_task(job) for job in jobs]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                await end_tasks(*tasks)
                await self._sites.close()

    async def last_words(self) -> None:
        """Write the status records that are not in git yet, at an orderly end."""
        if self.manner.status and self._telling.pending:
            await self._telling.flush()

    async def _follow(self) -> None:
        mirror = await run_in_thread(self.origin.mirror, self.manner.cache)
        async with contextlib.AsyncExitStack() as stack:
            if self._previews is not None:
                previewing = asyncio.create_task(self._previews.run(mirror))
                stack.push_async_callback(end_tasks, previewing)
            await self._poll(mirror)

    async def _poll(self, mirror: Mirror) -> None:
        """Look at the repository for ever: regularly, and when called."""
        while True:
            self._call.clear()
            try:
                await self._look_at_git(mirror)
                await self._roll_back(mirror)
            except FleetError as problem:
                self._fail(problem)
            except Exception as problem:  # the service keeps applying the commit before
                log.exception("%s cannot be followed", self.origin)
                self._following.read_again(LOOK_AGAIN)
                self._fail(UnexpectedError(str(self.origin), problem))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.manner.poll * random.uniform(0.8, 1.2)):  # noqa: S311 - jitter
                    await self._call.wait()

    async def _look_at_git(self, mirror: Mirror) -> None:
        """Read what is new in the repository, and take its newest commit if it is valid."""
        with self._following.asking():
            status = self._status_ref()
            tips = await self._following.tips(mirror, *status)
            await self._hear(mirror, tips, *status)
        commit = await self._following.newest(mirror, tips[self.origin.ref], self.current, self._check)
        if commit is None:
            if self.current is not None and not self._behind:
                self.problem = None  # the remote had not answered, and does again
            return
        self._take(commit)
        trouble = commit.rendered.index.trouble if commit.rendered else None
        if trouble is not None:
            self._fail(FleetError(trouble.message))

    async def _hear(self, mirror: Mirror, tips: Mapping[str, str], *status: str) -> None:
        """Read what is stored beside the branch: wave approvals, and the status records of agents."""
        if tips.get(approvals.REF) != self._order.heard:
            wave_approvals = await run_in_thread(approvals.read_approvals, mirror.repository, mirror.address)
            self._order.hear(wave_approvals, tips.get(approvals.REF))
            self._passes.ask(self._order.waiting())
            self._agents.call()
        if status and tips.get(*status) != self._reported:
            self._reported = tips.get(*status)
            self._agents.call()

    async def _check(self, commit: EvaluatedCommit) -> None:
        """Raise PolicyError if the commit removed more than it may; at the first one, read the status records too."""
        tells = self._tells
        await run_in_thread(
            self.reading.check, commit, self.current, lambda: read_status_records(commit.files) if tells else []
        )
        if self.current is None and self.manner.status:
            self._order.remember(await run_in_thread(read_status_records, commit.files))

    @property
    def _tells(self) -> bool:
        """Return whether the status branch has all that the service observed.

        Anything else in it was then written by another program.
        """
        current = self.current
        if current is None or not self.manner.status:
            return self.manner.status
        seen = all(self.known.get(pair, ("", None))[0] == current.commit for pair in current.desired)
        return seen and not self._telling.pending

    async def _roll_back(self, mirror: Mirror) -> None:
        """Roll back the stacks that are due, where the branch is still at the commit that failed.

        Passes ask again for the rest.
        """
        current = self.current
        if (
            not self._rollbacks.due
            or current is None
            or current.revision != self._following.tip
            or not self.reading.pool
        ):
            return
        direct = not (self.manner.signers or self._must_be_approved(current))
        followed = FollowedBranch(self.origin, mirror, self.reading.pool)
        for name in sorted(self._rollbacks.due):
            illness = self._illness(current, name)
            if illness is None:  # another commit came, or the stack is healthy again
                self._rollbacks.due.discard(name)
                continue
            lasts = self._lasting(current, name, illness.cluster)
            try:
                outcome = await run_in_thread(roll_back, followed, current, name, illness, direct=direct, lasts=lasts)
            except FleetError as problem:
                self.metrics.rollbacks.labels(str(self.origin), "failed").inc()
                log.warning("%s: it could not be rolled back: %s", name, problem.message, extra={"stack": name})
                continue
            if outcome is None:
                self._call.set()  # the branch has moved on: look at that first
                return
            await self._tell_rollback(current, name, outcome, illness.why)

    def _lasting(self, current: EvaluatedCommit, stack: str, cluster: str) -> Callable[[], bool]:
        """Return a function that tells the thread which is about to push whether the rollout still counts as failed.

        It has the cluster observed again. A cluster that cannot be observed is not known to have failed.
        """
        loop = asyncio.get_running_loop()

        async def look() -> bool:
            observation = (
                self._agents.look() if cluster in self._agents.clusters else self._passes.look_at((stack, cluster))
            )
            try:
                async with asyncio.timeout(LOOK_AGAIN):
                    await observation
            except TimeoutError:
                return False
            illness = self._illness(current, stack) if current is self.current else None
            return illness is not None and illness.cluster == cluster

        return lambda: asyncio.run_coroutine_threadsafe(look(), loop).result()

    def _must_be_approved(self, current: EvaluatedCommit) -> bool:
        return self.manner.require_approved or current.files.repository.settings.approval.required

    async def _tell_rollback(self, current: EvaluatedCommit, stack: str, outcome: RollbackOutcome, why: str) -> None:
        """Report the outcome of a rollback in the log, the clusters, git and notifications."""
        self._rollbacks.note(stack, current.revision, outcome)
        if not outcome.outcome:
            return
        self.metrics.rollbacks.labels(str(self.origin), outcome.outcome).inc()
        about = {"repository": str(self.origin), "stack": stack, "revision": current.revision[:12]}
        log.warning("%s: %s; %s", stack, why, outcome.words, extra=about)
        results = [result for (name, _), (_, result) in self.known.items() if name == stack]
        for result in results:
            site = self._sites.get(result.cluster)
            if site is not None:
                tell_rollback(site.events, stack, outcome.outcome, f"{why}; {outcome.words}")
        self._tell(*results, revision=current.revision)
        self._outside.announce([self._with_words(report) for report in self._reports(current, stack)])
        if self.manner.status:
            await self._telling.flush()  # before reports of the next commit replace these
        if outcome.outcome == "pushed":
            self._call.set()

    def _status_ref(self) -> tuple[str, ...]:
        """Return the ref that agents report to; empty if there are no agents."""
        if self.current is None or not self._agents.clusters:
            return ()
        return (refs.branch_ref(self.current.files.repository.settings.git.status_branch),)

    def _fail(self, problem: FleetError) -> None:
        """Report an error of the newest commit, which cannot be used; the service keeps applying the last valid one."""
        if str(problem) == str(self.problem):
            return
        self.problem, tip = problem, self._following.tip
        log.error("%s: %s", self.origin, problem, extra={"repository": str(self.origin), "revision": tip[:12]})
        if behind := self._behind:
            self._tell(*(replace(result, problem=problem) for _, result in self.known.values()), revision=behind)
            self._agents.trouble(behind, problem)

    @property
    def _behind(self) -> str:
        """Return the newer commit that has an error; "" if there is none.

        For an agent, a commit that is no readable bundle names no revision: then it is the current one.
        """
        current, tip = self.current, self._following.tip
        if self.problem is None or current is None or not tip:
            return ""
        if tip != current.commit:
            return current.revision if current.rendered else tip
        trouble = current.rendered.index.trouble if current.rendered else None
        return trouble.revision if trouble else ""

    def _take(self, newest: EvaluatedCommit) -> None:
        """Make a commit the current one, and ask for passes over what it changes."""
        before, self.current, self.problem = self.current, newest, None
        evaluated = {id(stack) for stack in before.evaluation.stacks} if before else set()
        fresh = sum(id(stack) not in evaluated for stack in newest.evaluation.stacks)
        self.metrics.evaluated.labels(str(self.origin)).inc(0 if newest.rendered else fresh)
        if before is None or before.revision != newest.revision:
            about = {"repository": str(self.origin), "revision": newest.revision[:12], "evaluated": fresh}
            how = "read" if newest.rendered else "evaluated"
            log.info("%s is %s; %d stacks %s", self.origin, newest.files.title, fresh, how, extra=about)
        pairs = changed_placements(before, newest)
        old_stacks = before.stacks if before else {}
        self._order.begins(name for name, stack in newest.stacks.items() if stack != old_stacks.get(name))
        self._agents.take()
        self._telling.no_more(newest.files, newest.gone)
        if unplaced := newest.unplaced():
            self._tell(*unplaced, revision=newest.revision)
        for pair in [pair for pair in self.known if pair not in newest.desired]:
            del self.known[pair]
            self._turns.forget(pair)
            self._order.forget(pair)
            self._outside.forget(*pair)
        self._spending.begins(newest.revision, newest.stacks, newest.targets)
        self._passes.take(newest)
        for site in self._sites:
            site.client.forget_discovery()
            if site.cluster not in newest.evaluation.clusters:
                self._sites.retire(site.cluster.name)
        if before is None or pairs is None:
            self._passes.ask_all(*newest.targets)
            return
        self._passes.ask(pairs)
        # What no pass has synced with the commit before is still to be synced: its result says nothing here.
        synced = {pair: result for pair, (commit, result) in self.known.items() if commit == before.commit}
        same = {pair: result for pair, result in synced.items() if pair not in pairs}
        for pair, result in same.items():  # its result holds for this commit, too
            self.known[pair] = (newest.commit, result)
        self._order.moved_on(same, before.commit, newest.commit)
        self._tell(*same.values(), revision=newest.revision, moved=False)

    def _broken(self, current: EvaluatedCommit, pair: StackCluster, problem: Exception) -> None:
        """Report an unexpected error of a pass over this stack alone."""
        stack, cluster = pair
        log.error("%s on %s", stack, cluster, exc_info=problem, extra={"stack": stack, "cluster": cluster})
        if pair in current.desired:
            self._note(current, Result(stack, cluster, problem=UnexpectedError(f"{cluster}: {stack}", problem)))
        else:
            self._passes.retry(pair)

    async def _sync(self, current: EvaluatedCommit, target: ClusterTarget) -> None:
        cluster = target.cluster.name
        hooks = _ReconcileHooks(self, current, target)
        options = SyncOptions(
            self.manner.kubeconfig,
            wait=False,
            budget=budget_of(current),
            accounts=current.files.repository.settings.trust.account,
            claim=RepositoryOwnership(current.files.identity),
            lease_seconds=5.0,
        )
        try:
            run = await sync_fleet([target], options, NoProgress(), hooks, revision=current.revision)
        finally:
            self._order.ended(hooks.begun)
        for remark in run.remarks:
            log.debug(remark)
        for result in run.results:
            self._note(self._newest(current, result), result)
        if target.complete and cluster in run.looked_at and current is self.current and not current.rendered:
            staying = {one.stack for one in run.results if one.leaving and (one.problem or one.suspended)}
            self._telling.looked_through(cluster, frozenset({one.stack for one in target.desired} | staying))
        failed = {result.stack for result in run.results if result.problem}
        if any(_were_refused(result.problem) for result in run.results):
            self._sites.retire(cluster)  # with the next pass its credentials are read anew
        for stack in target.stacks - failed:
            self._passes.succeeded((stack, cluster))
        if current is self.current:
            self._measure(current)

    def _is_silent(self, cluster: str) -> bool:
        """Return whether a cluster did not answer the last pass over one of its stacks."""
        problems = (result.problem for (_, where), (_, result) in self.known.items() if where == cluster)
        return any(isinstance(problem, UnansweredError) for problem in problems)

    def _newest(self, current: EvaluatedCommit, result: Result) -> EvaluatedCommit:
        """Return the commit that a result is about: the newest, if it wants the same of this stack, else `current`."""
        newest, pair = self.current, (result.stack, result.cluster)
        same = newest is not None and newest.desired.get(pair) == current.desired.get(pair)
        return newest if newest is not None and same else current

    def _check_budget(
        self, current: EvaluatedCommit, target: ClusterTarget, plans: Iterable[Plan], allowance: DeletionBudget
    ) -> None:
        """Raise PolicyError if the plans of a pass delete more than they may.

        Raise PartlySeenError, and ask for a pass over the rest of the cluster, if that has to be observed first.
        """
        cluster = target.cluster.name
        wanted = {desired.stack: desired for desired in current.targets[cluster].desired}
        looked_at = {desired.stack for desired in target.desired}
        try:
            self._spending.check(
                cluster, plans, allowance, revision=current.revision, wanted=wanted, looked_at=looked_at
            )
        except PartlySeenError:
            self._passes.ask_rest(cluster)
            raise

    def _asking(self, current: EvaluatedCommit) -> ApplyCheck:
        """Return the check of a commit before its plans are applied."""
        git = current.files.git
        assert git is not None  # noqa: S101 - the mirror's
        gate = ApprovalCheck(current.files, current.evaluation, required=self.manner.require_approved)
        return ApplyCheck(git, current.revision, gate, self._was_well, self._order.told)

    def _was_well(self, pair: StackCluster) -> bool:
        """Return whether a pass found the stack there as its commit wants it, or made it so."""
        _, result = self.known.get(pair, ("", None))
        return result is not None and result.problem is None and not result.suspended

    def _note(self, current: EvaluatedCommit, result: Result) -> None:
        """Take the result of a pass over one stack: report it, and ask for the passes that follow from it."""
        repaired = len(drift_steps(result.plan)) if result.plan and not result.problem else 0
        result = current.after(result)
        pair, problem = (result.stack, result.cluster), result.problem
        if not problem and not result.suspended:
            self._spending.done(pair)
        word = sync_word(problem)
        self.metrics.passes.labels(str(self.origin), word).inc()
        self.metrics.writes.labels(str(self.origin)).inc(sum(n for verb, n in result.done.items() if verb.writes))
        self.metrics.repairs.labels(str(self.origin)).inc(repaired)
        site = self._sites.get(result.cluster)
        if result.leaving and not problem and not result.suspended:
            self.known.pop(pair, None)
            if self.manner.status:
                self._telling.left(current.files, pair)
            log.info("%s is no longer placed on %s, and left running there", *pair)
        else:
            _, before = self.known.get(pair, ("", None))
            self.known[pair] = (current.commit, result)
            if (
                before is not None and before.problem and not problem
            ):  # other stacks that failed there may work again, too
                self._passes.ask(
                    placement
                    for placement, (_, other) in self.known.items()
                    if placement[1] == pair[1] and other.problem
                )
            if self._order.note(current, result):
                self._passes.ask(self._order.waiting(current.stacks, result.stack))
                self._agents.call()
            self._consider(current, result.stack)
            if self._turns.turn(word, result, current.revision) and site is not None:
                tell_cluster(site.events, result, "Repaired" if repaired and result.done else word)
            self._tell_of_pass(current, result)
        if isinstance(problem, WaitingError):
            self._passes.ask_later(pair, self._order.again.get(pair, LOOK_AGAIN))
        elif problem:
            self._passes.retry(pair)
        elif result.suspended or (result.health in MOVING and not result.leaving):
            self._passes.ask_later(pair)

    def _rendered(self) -> None:
        """Take what the publisher read: what agents have and report may be new."""
        self._passes.ask(self._order.waiting())
        if self.current is not None:
            for stack in self.current.stacks:
                self._consider(self.current, stack)

    def _consider(self, current: EvaluatedCommit, stack: str) -> None:
        """Ask for a rollback if the stack's rollout failed in a cluster, else for passes until that is known."""
        if self._illness(current, stack) is not None and self._rollbacks.ask(stack, current.revision):
            self._call.set()
        wanted = current.stacks.get(stack)
        if wanted is not None and wanted.rollout.on_failure == "rollback":
            for cluster, after in self._order.ripens(current, wanted).items():
                self._passes.ask_later((stack, cluster), after)

    def _illness(self, current: EvaluatedCommit, name: str) -> Illness | None:
        """Return where and why the rollout of a stack failed and must be rolled back; None if it need not be."""
        stack = current.stacks.get(name)
        if stack is None or stack.rollout.on_failure != "rollback":
            return None
        failure = self._order.fallen(current, stack)
        if failure is None:
            return None
        cluster, health = failure
        reports = {report.cluster: report for report in self._reports(current, name)}
        message = reports[cluster].message if cluster in reports else ""
        why = f"{cluster} has {current.revision[:8]} and is {health}" + (f": {message}" if message else "")
        _, result = self.known.get((name, cluster), ("", None))
        objects = [obj for obj in result.objects if obj.state not in WELL] if result is not None else []
        worst = [obj for obj in objects if obj.state == "Degraded"]
        return Illness(cluster, why, tuple(worst or objects))

    def _objection(self, current: EvaluatedCommit, result: Result, begun: Counter[StackCluster]) -> FleetError | None:
        """Return why the stack, or its rollout, forbids to carry out its plan now; None if it may be carried out."""
        stack, plan = current.stacks.get(result.stack), result.plan
        if stack is None or plan is None or plan.empty or plan.leaving:
            return None
        if not is_rollout(stack, plan):
            return drift_error(plan) if stack.drift == "report" else None
        return self._order.objection(current, stack, plan.cluster, begun)

    def _tell_of_pass(self, current: EvaluatedCommit, result: Result) -> None:
        """Report a result for the commit that was synced.

        While a newer commit has an error, report that error on every stack instead.
        """
        if self._behind and not result.problem:
            self._tell(replace(result, problem=self.problem), revision=self._behind)
        else:
            self._tell(result, revision=current.revision)

    def _report(self, current: EvaluatedCommit, result: Result, revision: str) -> StatusReport:
        return self._with_words(current.report(result, revision))

    def _reports(self, current: EvaluatedCommit, stack: str) -> list[StatusReport]:
        """Return the status of a stack at this commit in every cluster, from passes and from agents."""
        results = [result for (name, _), (_, result) in self.known.items() if name == stack]
        reports = [current.report(result, current.revision) for result in results]
        return [*reports, *self._agents.said(stack, current.revision)]

    def _with_words(self, report: StatusReport) -> StatusReport:
        """Return the report with what is known of the stack's rollback, if it is to be rolled back."""
        message = self._rollbacks.words(report.stack, report.revision)
        is_about_it = message and (report.message or report.health not in WELL)
        return replace(report, message="; ".join(filter(None, (report.message, message)))) if is_about_it else report

    def _tell(self, *results: Result, revision: str, moved: bool = True) -> None:
        """Pass reports on to the writer of status records and to the notifier."""
        current = self.current
        if current is None:
            return
        reports = [self._report(current, result, revision) for result in results]
        if self.manner.status:
            self._telling.tell(current.files, *reports)
        self._outside.tell(reports, moved=moved)

    def _measure(self, current: EvaluatedCommit) -> None:
        """Measure the time from the commit to now, once every placement of it was synced or tried."""
        since = self._following.since
        if not since or current.commit != self._following.tip:
            return
        if all(self.known.get(pair, ("", None))[0] == current.commit for pair in current.desired):
            self.metrics.lag.labels(str(self.origin)).observe(time.monotonic() - since)
            self._following.since = 0.0

    def _reached(self, current: EvaluatedCommit, cluster: ClusterData) -> AbstractAsyncContextManager[Client]:
        stacks = (desired for pair, desired in current.desired.items() if pair[1] == cluster.name)
        return self._sites.reached(cluster, kinds_of(stacks))

    def _turned(self, cluster: str) -> None:
        """Ask for a pass over a cluster that stopped or began to answer: what is known of it may be old."""
        self._passes.ask_all(cluster)

    def _changed(self, stack: str, cluster: str) -> None:
        if self.current is not None and (stack, cluster) in self.current.desired:
            self._passes.ask([(stack, cluster)])


def _were_refused(problem: FleetError | None) -> bool:
    """Return whether the cluster refused the credentials themselves.

    A missing right is the error of one stack, and a new client would not change it.
    """
    return isinstance(problem, AccessError) and not isinstance(problem, NoRightError)


class _ReconcileHooks(SyncHooks):
    """Hooks of one reconcile of a service: open connections, budgets kept over time, and turns of rollouts."""

    def __init__(self, service: Service, current: EvaluatedCommit, target: ClusterTarget) -> None:
        self._service, self._current, self._target = service, current, target
        self.begun: Counter[StackCluster] = Counter()  # changes that this reconcile begins
        self.approval = None if current.rendered else service._asking(current)

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        return self._service._reached(self._current, cluster)

    def check_budget(self, cluster: str, plans: Sequence[Plan], budget: DeletionBudget) -> None:
        self._service._check_budget(self._current, self._target, plans, budget)

    def find_objection(self, result: Result) -> FleetError | None:
        return self._service._objection(self._current, result, self.begun)

    async def read_suspensions(self, stacks: Sequence[str]) -> Mapping[str, Suspension]:
        known = [self._current.stacks[name] for name in stacks if name in self._current.stacks]
        clusters = self._current.evaluation.clusters
        elsewhere = suspensions_elsewhere(known, clusters, {self._target.cluster.name})
        return await self._service._words.everywhere(
            elsewhere, lambda cluster: self._service._reached(self._current, cluster)
        )

    async def judge(self, planned: list[Result]) -> list[Result]:
        return planned if self.approval is None else await run_in_thread(self.approval.judge, planned)
