"""One repository, for ever: see its commits, and keep every stack in every cluster as the newest good one says.

A commit, a change that a watch tells, a failure that is tried again and the regular look all only ask for a pass. A
pass is `fleet sync` of some stacks of one cluster, without waiting for health: health is what the next pass sees.
Nothing that matters is only here; see the package.
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
from fleet.sync.run import sync_fleet
from fleet.sync.suspension import SuspensionLookup, suspensions_elsewhere
from fleet.sync.targets import ClusterTarget

MOVING = frozenset({"Progressing", "Missing"})

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Service:
    """`await Service(origin, manner, metrics).run()`; `hear` what a forge says."""

    origin: FollowedRepository
    manner: ServeOptions
    metrics: Metrics
    reading: CommitReader = field(default_factory=EvaluatingReader)
    current: EvaluatedCommit | None = None
    problem: FleetError | None = None  # with the newest commit, or with getting it
    known: dict[StackCluster, tuple[str, Result]] = field(
        default_factory=dict
    )  # as last seen, with the commit looked at
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
    _reported: str | None = None  # the tip of the status branch, as agents left it

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
        """The repository was read, and every cluster of it was looked at, or tried."""
        if self.current is None:
            return self.problem is not None
        return all(pair in self.known for pair in self.current.desired)

    def hear(self, event: Event) -> None:
        """What a forge says about the repository: a reason to look."""
        if isinstance(event, PushEvent):
            self._call.set()
        if self._previews is not None:
            self._previews.hear(event)

    def page(self, path: str) -> bytes | None:
        """A preview for people, if it is one of this repository's."""
        return self._previews.pages.find(path) if self._previews else None

    def health(self) -> Iterable[tuple[tuple[str, ...], float]]:
        return self._turns.health()

    async def run(self) -> None:
        """Until cancelled."""
        with self.reading.opened():
            jobs: list[Coroutine[Any, Any, None]] = [self._follow(), *self._passes.workers(self.manner.resync)]
            jobs.append(run_forever("telling others of health", self._outside.run))
            jobs.append(run_forever("rendering for agents", self._agents.run))
            if self.manner.status:
                jobs.append(run_forever("writing health into git", self._telling.run))
            tasks = [asyncio.create_task(one) for one in jobs]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                await end_tasks(*tasks)
                await self._sites.close()

    async def last_words(self) -> None:
        """What is known and not written yet, at an orderly end."""
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
        while True:
            self._call.clear()
            try:
                await self._look_at_git(mirror)
                await self._roll_back(mirror)
            except FleetError as problem:
                self._fail(problem)
            except Exception as problem:  # the commit before goes on being looked after
                log.exception("%s cannot be followed", self.origin)
                self._following.read_again(LOOK_AGAIN)
                self._fail(UnexpectedError(str(self.origin), problem))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.manner.poll * random.uniform(0.8, 1.2)):  # noqa: S311 - jitter
                    await self._call.wait()

    async def _look_at_git(self, mirror: Mirror) -> None:
        with self._following.asking():
            status = self._status_ref()
            tips = await self._following.tips(mirror, *status)
            await self._hear(mirror, tips, *status)
        found = await self._following.newest(mirror, tips[self.origin.ref], self.current, self._check)
        if found is None:
            if self.current is not None and not self._behind:
                self.problem = None  # it was that nobody could be asked
            return
        self._take(found)
        trouble = found.rendered.index.trouble if found.rendered else None
        if trouble is not None:
            self._fail(FleetError(trouble.message))

    async def _hear(self, mirror: Mirror, tips: Mapping[str, str], *status: str) -> None:
        """What is said beside the branch: approvals, and what agents report."""
        if tips.get(approvals.REF) != self._order.heard:
            words = await run_in_thread(approvals.read_approvals, mirror.repository, mirror.address)
            self._order.hear(words, tips.get(approvals.REF))
            self._passes.ask(self._order.waiting())
            self._agents.call()
        if status and tips.get(*status) != self._reported:
            self._reported = tips.get(*status)
            self._agents.call()

    async def _check(self, found: EvaluatedCommit) -> None:
        """Raises PolicyError if the commit lost more than it should; the first one brings what was told before."""
        tells = self._tells
        await run_in_thread(
            self.reading.check, found, self.current, lambda: read_status_records(found.files) if tells else []
        )
        if self.current is None and self.manner.status:
            self._order.remember(await run_in_thread(read_status_records, found.files))

    @property
    def _tells(self) -> bool:
        """The status branch has all that was seen: what else it says is somebody else's word."""
        current = self.current
        if current is None or not self.manner.status:
            return self.manner.status
        seen = all(self.known.get(pair, ("", None))[0] == current.commit for pair in current.desired)
        return seen and not self._telling.pending

    async def _roll_back(self, mirror: Mirror) -> None:
        """What is due, where the branch is still at the commit that it is due for; the rest is asked again later."""
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
            if illness is None:  # another commit came, or it is well again
                self._rollbacks.due.discard(name)
                continue
            lasts = self._lasting(current, name, illness.cluster)
            try:
                made = await run_in_thread(roll_back, followed, current, name, illness, direct=direct, lasts=lasts)
            except FleetError as problem:
                self.metrics.rollbacks.labels(str(self.origin), "failed").inc()
                log.warning("%s: it could not be rolled back: %s", name, problem.message, extra={"stack": name})
                continue
            if made is None:
                self._call.set()  # the branch has moved on: look at that first
                return
            await self._tell_rollback(current, name, made, illness.why)

    def _lasting(self, current: EvaluatedCommit, stack: str, cluster: str) -> Callable[[], bool]:
        """For the thread that is about to push: whether the rollout still counts as failed there when it is looked at
        again. What cannot be looked at is not known to be ill."""
        loop = asyncio.get_running_loop()

        async def look() -> bool:
            heard = self._agents.look() if cluster in self._agents.clusters else self._passes.look_at((stack, cluster))
            try:
                async with asyncio.timeout(LOOK_AGAIN):
                    await heard
            except TimeoutError:
                return False
            found = self._illness(current, stack) if current is self.current else None
            return found is not None and found.cluster == cluster

        return lambda: asyncio.run_coroutine_threadsafe(look(), loop).result()

    def _must_be_approved(self, current: EvaluatedCommit) -> bool:
        return self.manner.require_approved or current.files.repository.settings.approval.required

    async def _tell_rollback(self, current: EvaluatedCommit, stack: str, made: RollbackOutcome, why: str) -> None:
        self._rollbacks.note(stack, current.revision, made)
        if not made.outcome:
            return
        self.metrics.rollbacks.labels(str(self.origin), made.outcome).inc()
        about = {"repository": str(self.origin), "stack": stack, "revision": current.revision[:12]}
        log.warning("%s: %s; %s", stack, why, made.words, extra=about)
        known = [one for (name, _), (_, one) in self.known.items() if name == stack]
        for result in known:
            site = self._sites.get(result.cluster)
            if site is not None:
                tell_rollback(site.events, stack, made.outcome, f"{why}; {made.words}")
        self._tell(*known, revision=current.revision)
        self._outside.announce([self._with_words(one) for one in self._reports(current, stack)])
        if self.manner.status:
            await self._telling.flush()  # before the next commit's words take the place of these
        if made.outcome == "pushed":
            self._call.set()

    def _status_ref(self) -> tuple[str, ...]:
        """What agents report on, if there are any."""
        if self.current is None or not self._agents.clusters:
            return ()
        return (refs.branch_ref(self.current.files.repository.settings.git.status_branch),)

    def _fail(self, problem: FleetError) -> None:
        """Of the newest commit nothing can be said; what the last good one wants goes on being looked after."""
        if str(problem) == str(self.problem):
            return
        self.problem, tip = problem, self._following.tip
        log.error("%s: %s", self.origin, problem, extra={"repository": str(self.origin), "revision": tip[:12]})
        if behind := self._behind:
            self._tell(*(replace(one, problem=problem) for _, one in self.known.values()), revision=behind)
            self._agents.trouble(behind, problem)

    @property
    def _behind(self) -> str:
        """A newer commit, with which something is wrong; "" if there is none. What is no rendered set tells of none."""
        current, tip = self.current, self._following.tip
        if self.problem is None or current is None or not tip:
            return ""
        if tip != current.commit:
            return current.revision if current.rendered else tip
        trouble = current.rendered.index.trouble if current.rendered else None
        return trouble.revision if trouble else ""

    def _take(self, found: EvaluatedCommit) -> None:
        before, self.current, self.problem = self.current, found, None
        evaluated = {id(one) for one in before.evaluation.stacks} if before else set()
        fresh = sum(id(one) not in evaluated for one in found.evaluation.stacks)
        self.metrics.evaluated.labels(str(self.origin)).inc(0 if found.rendered else fresh)
        if before is None or before.revision != found.revision:
            about = {"repository": str(self.origin), "revision": found.revision[:12], "evaluated": fresh}
            how = "read" if found.rendered else "evaluated"
            log.info("%s is %s; %d stacks %s", self.origin, found.files.title, fresh, how, extra=about)
        pairs = changed_placements(before, found)
        known = before.stacks if before else {}
        self._order.begins(name for name, one in found.stacks.items() if one != known.get(name))
        self._agents.take()
        self._telling.no_more(found.files, found.gone)
        if unplaced := found.unplaced():
            self._tell(*unplaced, revision=found.revision)
        for pair in [pair for pair in self.known if pair not in found.desired]:
            del self.known[pair]
            self._turns.forget(pair)
            self._order.forget(pair)
            self._outside.forget(*pair)
        self._spending.begins(found.revision, found.stacks, found.targets)
        self._passes.take(found)
        for site in self._sites:
            site.client.forget_discovery()
            if site.cluster not in found.evaluation.clusters:
                self._sites.retire(site.cluster.name)
        if before is None or pairs is None:
            self._passes.ask_all(*found.targets)
            return
        self._passes.ask(pairs)
        # What no pass has seen with the commit before is still to be looked at: it says nothing about this one either.
        seen = {pair: one for pair, (commit, one) in self.known.items() if commit == before.commit}
        same = {pair: one for pair, one in seen.items() if pair not in pairs}
        for pair, one in same.items():  # it is what this commit says, too
            self.known[pair] = (found.commit, one)
        self._order.moved_on(same, before.commit, found.commit)
        self._tell(*same.values(), revision=found.revision, moved=False)

    def _broken(self, current: EvaluatedCommit, pair: StackCluster, problem: Exception) -> None:
        """A pass over this stack alone met what nobody foresaw."""
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
        last = (one.problem for (_, where), (_, one) in self.known.items() if where == cluster)
        return any(isinstance(problem, UnansweredError) for problem in last)

    def _newest(self, current: EvaluatedCommit, result: Result) -> EvaluatedCommit:
        """The commit that a result is about: a newer one came meanwhile, and may want the same of this stack there."""
        newest, pair = self.current, (result.stack, result.cluster)
        same = newest is not None and newest.desired.get(pair) == current.desired.get(pair)
        return newest if newest is not None and same else current

    def _check_budget(
        self, current: EvaluatedCommit, target: ClusterTarget, plans: Iterable[Plan], allowance: DeletionBudget
    ) -> None:
        cluster = target.cluster.name
        wanted = {one.stack: one for one in current.targets[cluster].desired}
        looked_at = {one.stack for one in target.desired}
        try:
            self._spending.check(
                cluster, plans, allowance, revision=current.revision, wanted=wanted, looked_at=looked_at
            )
        except PartlySeenError:
            self._passes.ask_rest(cluster)
            raise

    def _asking(self, current: EvaluatedCommit) -> ApplyCheck:
        git = current.files.git
        assert git is not None  # noqa: S101 - the mirror's
        gate = ApprovalCheck(current.files, current.evaluation, required=self.manner.require_approved)
        return ApplyCheck(git, current.revision, gate, self._was_well, self._order.told)

    def _was_well(self, pair: StackCluster) -> bool:
        """A pass found what a commit wants, or made it so."""
        _, one = self.known.get(pair, ("", None))
        return one is not None and one.problem is None and not one.suspended

    def _note(self, current: EvaluatedCommit, result: Result) -> None:
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
            if before is not None and before.problem and not problem:  # so may what else failed there
                self._passes.ask(one for one, (_, its) in self.known.items() if one[1] == pair[1] and its.problem)
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
        """What agents have and say is known anew."""
        self._passes.ask(self._order.waiting())
        if self.current is not None:
            for stack in self.current.stacks:
                self._consider(self.current, stack)

    def _consider(self, current: EvaluatedCommit, stack: str) -> None:
        """Whether the stack is to be taken back, now that it is seen how it is somewhere."""
        if self._illness(current, stack) is not None and self._rollbacks.ask(stack, current.revision):
            self._call.set()
        wanted = current.stacks.get(stack)
        if wanted is not None and wanted.rollout.on_failure == "rollback":
            for cluster, after in self._order.ripens(current, wanted).items():
                self._passes.ask_later((stack, cluster), after)

    def _illness(self, current: EvaluatedCommit, name: str) -> Illness | None:
        """How which cluster is, of a stack whose rollout failed and is to be taken back; None when there is none."""
        stack = current.stacks.get(name)
        if stack is None or stack.rollout.on_failure != "rollback":
            return None
        found = self._order.fallen(current, stack)
        if found is None:
            return None
        cluster, words = found
        reports = {one.cluster: one for one in self._reports(current, name)}
        said = reports[cluster].message if cluster in reports else ""
        why = f"{cluster} has {current.revision[:8]} and is {words}" + (f": {said}" if said else "")
        _, seen = self.known.get((name, cluster), ("", None))
        objects = [one for one in seen.objects if one.state not in WELL] if seen is not None else []
        worst = [one for one in objects if one.state == "Degraded"]
        return Illness(cluster, why, tuple(worst or objects))

    def _objection(self, current: EvaluatedCommit, result: Result, begun: Counter[StackCluster]) -> FleetError | None:
        """What the stack itself, or the order of things, has against carrying out a plan now."""
        stack, made = current.stacks.get(result.stack), result.plan
        if stack is None or made is None or made.empty or made.leaving:
            return None
        drift = drift_error(made)
        if drift is not None and not stack.rollout.freeze:
            return drift if stack.drift == "report" else None  # to put back what git said already is no rollout
        return self._order.objection(current, stack, made.cluster, begun)

    def _tell_of_pass(self, current: EvaluatedCommit, result: Result) -> None:
        """Of the commit that is looked after; but as long as a newer one cannot be, that is the word on every stack."""
        if self._behind and not result.problem:
            self._tell(replace(result, problem=self.problem), revision=self._behind)
        else:
            self._tell(result, revision=current.revision)

    def _report(self, current: EvaluatedCommit, result: Result, revision: str) -> StatusReport:
        return self._with_words(current.report(result, revision))

    def _reports(self, current: EvaluatedCommit, stack: str) -> list[StatusReport]:
        """How a stack is at this commit in every cluster, by what was seen and by what agents say."""
        seen = [one for (name, _), (_, one) in self.known.items() if name == stack]
        reports = [current.report(one, current.revision) for one in seen]
        return [*reports, *self._agents.said(stack, current.revision)]

    def _with_words(self, report: StatusReport) -> StatusReport:
        """About its being taken back, if it is to be."""
        words = self._rollbacks.words(report.stack, report.revision)
        is_about_it = words and (report.message or report.health not in WELL)
        return replace(report, message="; ".join(filter(None, (report.message, words)))) if is_about_it else report

    def _tell(self, *results: Result, revision: str, moved: bool = True) -> None:
        current = self.current
        if current is None:
            return
        reports = [self._report(current, one, revision) for one in results]
        if self.manner.status:
            self._telling.tell(current.files, *reports)
        self._outside.tell(reports, moved=moved)

    def _measure(self, current: EvaluatedCommit) -> None:
        """The commit is in every cluster, or that was tried."""
        since = self._following.since
        if not since or current.commit != self._following.tip:
            return
        if all(self.known.get(pair, ("", None))[0] == current.commit for pair in current.desired):
            self.metrics.lag.labels(str(self.origin)).observe(time.monotonic() - since)
            self._following.since = 0.0

    def _reached(self, current: EvaluatedCommit, cluster: ClusterData) -> AbstractAsyncContextManager[Client]:
        here = (one for pair, one in current.desired.items() if pair[1] == cluster.name)
        return self._sites.reached(cluster, kinds_of(here))

    def _turned(self, cluster: str) -> None:
        """It stopped answering, or answers again: what is known of it may be old."""
        self._passes.ask_all(cluster)

    def _changed(self, stack: str, cluster: str) -> None:
        if self.current is not None and (stack, cluster) in self.current.desired:
            self._passes.ask([(stack, cluster)])


def _were_refused(problem: FleetError | None) -> bool:
    """The credentials themselves. A right that is missing is one stack's matter, and stays so with a new client."""
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
