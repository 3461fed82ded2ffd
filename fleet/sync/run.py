"""Run over all clusters: first all are read and the plans are shown, then each is changed when it is its turn.

A cluster that cannot be reached fails alone: its stacks are reported as failed and nothing of it is touched, while the
others go on. Errors that are no FleetError are bugs and stop everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from fleet.errors import FleetError, PolicyError, ResourceError
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.kube.client.client import Client, impersonate
from fleet.names import GROUP
from fleet.objects.desired import StackCluster
from fleet.objects.redaction import SecretValues
from fleet.plan import Plan, Verb
from fleet.plan.budget import check_share, count_lost_objects
from fleet.plan.inventory import Suspension
from fleet.sync.early import AT_ONCE, EarlyReads
from fleet.sync.health import degraded_error, inert_health, observe_health, wait_until_healthy
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.planning import ClusterPlan, Kind, StackPlan, apply_definitions, plan_cluster
from fleet.sync.progress import LineProgress, Progress
from fleet.sync.redaction import RedactedProgress, redact_result, secrets_of_plan
from fleet.sync.result import (
    PartiallyAppliedError,
    Result,
    WaitingError,
    count_done,
    error_of,
    refuse_forbidden,
)
from fleet.sync.rollout.gates import RolloutState, healthy_since, state_before
from fleet.sync.rollout.order import RolloutContext, RolloutQueue, watched_stacks
from fleet.sync.suspension import NOWHERE, mark_suspended, read_suspensions
from fleet.sync.targets import ClusterTarget

NO_HOOKS = SyncHooks()


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every step of one run is given."""

    options: SyncOptions
    hooks: SyncHooks
    progress: Progress
    revision: str
    early: EarlyReads | None = None


@dataclass(slots=True)
class ClusterRun:
    """One cluster during a run: connected and read, or the error that there is instead."""

    target: ClusterTarget
    client: Client | None = None
    observed: ClusterPlan = field(default_factory=lambda: ClusterPlan(()))
    problem: FleetError | None = None
    skipped: str = ""

    @property
    def cluster(self) -> str:
        return self.target.cluster.name

    def results(self) -> list[Result]:
        """Return a result for every stack of this cluster, with its plan or its error."""
        if self.problem:
            return [Result(desired.stack, self.cluster, problem=self.problem) for desired in self.target.desired]
        return [_make_result(seen, self.cluster) for seen in self.observed.seen]

    def remarks(self, *, planned: bool) -> list[str]:
        """Return what the user should know besides the results; `planned`: before anything was done."""
        if self.skipped:
            return [f"{self.cluster}: {self.skipped}"]
        if self.problem:
            text = f"{self.cluster}: not known whether there is something to forget: {self.problem.message}"
            return [] if self.target.desired else [text]
        kinds = sorted({kind for seen in self.observed.seen if not seen.problem for _, _, kind in seen.undefined})
        missing = [f"{self.cluster}: the kind {kind} is not defined there yet; sync defines it" for kind in kinds]
        unknown = [
            f"the operator on {self.cluster} does not know {kind.removesuffix(f'.{GROUP}')}"
            for kind in self.observed.unknown_types
        ]
        return [*(missing if planned else []), *unknown, *self._orphans()]

    def _orphans(self) -> list[str]:
        if not self.observed.orphans:
            return []
        names = ", ".join(self.observed.orphans[:5]) + (" and others" if len(self.observed.orphans) > 5 else "")
        return [f"{self.cluster}: not declared in this repository: {names}; `fleet destroy STACK` removes one"]


@dataclass(frozen=True, slots=True)
class Run:
    """Results of a run and what the user should know besides."""

    # Not in the repr: asyncio makes one of a finished task's result, which for thousands of steps takes a second.
    results: tuple[Result, ...] = field(repr=False)
    remarks: tuple[str, ...] = ()
    orphans: tuple[tuple[str, str], ...] = ()  # stacks, each with the cluster that has it, which git does not know
    looked_at: frozenset[str] = frozenset()  # clusters that answered


async def plan_fleet(
    targets: Sequence[ClusterTarget],
    options: SyncOptions,
    progress: Progress,
    hooks: SyncHooks = NO_HOOKS,
    *,
    revision: str = "",
    early: EarlyReads | None = None,
) -> Run:
    """Read all clusters and plan; return the plans. Nothing is written to any cluster."""
    context = RunContext(options, hooks, progress, revision, early)
    async with AsyncExitStack() as stack:
        cluster_runs = await _open_all(stack, targets, context)
        await asyncio.gather(
            *(_check_schema(cluster_run, least=1, tried=options.dry_run) for cluster_run in cluster_runs)
        )
        secrets = _collect_secrets(cluster_runs)
        planned = _check_plans(cluster_runs, context)
        remarks = _remarks(cluster_runs, planned=True)
        if options.dry_run:
            planned, more = await _dry_run_all(cluster_runs, planned)
            remarks = (*remarks, *more)
        results = [redact_result(result, secrets) for cluster_results in planned for result in cluster_results]
        for result in results:
            progress.update(result.stack, result.cluster, "failed" if result.problem else "done")
        return Run(tuple(results), remarks, _orphans(cluster_runs))


async def _dry_run_all(
    cluster_runs: Sequence[ClusterRun], planned: list[list[Result]]
) -> tuple[list[list[Result]], list[str]]:
    """Try the plans of all clusters in dry runs; return the results by cluster, and remarks.

    What could not be planned is not tried either.
    """
    from fleet.sync.apply import ClusterDryRun, dry_run  # noqa: PLC0415 - not for those who only look

    async def dry_run_cluster(cluster_run: ClusterRun, results: list[Result]) -> ClusterDryRun:
        accounts = {seen.stack: seen.account for seen in cluster_run.observed.seen}
        return (
            await dry_run(cluster_run.client, results, accounts)
            if cluster_run.client
            else ClusterDryRun(tuple(results))
        )

    pairs = zip(cluster_runs, planned, strict=True)
    outcomes = await asyncio.gather(*(dry_run_cluster(cluster_run, results) for cluster_run, results in pairs))
    return [list(outcome.results) for outcome in outcomes], [line for outcome in outcomes for line in outcome.remarks]


async def sync_fleet(
    targets: Sequence[ClusterTarget],
    options: SyncOptions,
    progress: Progress,
    hooks: SyncHooks = NO_HOOKS,
    *,
    revision: str,
    early: EarlyReads | None = None,
) -> Run:
    """Read all clusters, plan, have the plans confirmed (`hooks.confirm` may raise), and then carry them out."""
    context = RunContext(options, hooks, progress, revision, early)
    async with AsyncExitStack() as stack:
        cluster_runs = await _open_all(stack, targets, context)
        watched = hooks.rollout.bystanders if hooks.rollout else ()
        bystanders = await _open_all(stack, watched, replace(context, progress=LineProgress(prints_phases=False)))
        await asyncio.gather(
            *(_check_schema(cluster_run, least=2) for cluster_run in cluster_runs)
        )  # the server refuses one write as a whole
        secrets = _collect_secrets([*cluster_runs, *bystanders])
        suspensions = await hooks.read_suspensions(_stacks_to_change(cluster_runs))
        planned = [
            redact_result(result, secrets)
            for cluster_results in _check_plans(cluster_runs, context, suspensions)
            for result in cluster_results
        ]
        if any(result.is_to_do for result in planned):
            planned = await hooks.judge(planned)
        hooks.confirm(Run(tuple(planned), _remarks(cluster_runs, planned=True), _orphans(cluster_runs)))
        refused = {(result.stack, result.cluster): result for result in planned if result.problem or result.suspended}
        context = replace(context, progress=RedactedProgress(progress, secrets))
        queue = await stack.enter_async_context(_make_queue(cluster_runs, planned, bystanders, context).serve())
        done = await asyncio.gather(
            *(_sync_cluster(cluster_run, refused, queue, context) for cluster_run in cluster_runs)
        )
        results = tuple(redact_result(result, secrets) for results in done for result in results)
        return Run(results, _remarks(cluster_runs, planned=False), looked_at=_clusters_seen(cluster_runs))


async def _check_schema(cluster_run: ClusterRun, *, least: int, tried: bool = False) -> None:
    """Give each stack whose plan has so many writes the problem that the schema finds: nothing of it is written.

    What is `tried` in a dry run is left to the server, which cannot try what belongs to a new namespace or kind.
    """
    if cluster_run.client is None or cluster_run.problem:
        return
    client, plans = cluster_run.client, [seen.plan for seen in cluster_run.observed.seen if seen.plan]
    writing = [
        seen
        for seen in cluster_run.observed.seen
        if seen.plan and not seen.problem and _count_writes(seen.plan) >= least
    ]
    writing = [seen for seen in writing if not tried or (seen.plan and _makes_ground(seen.plan))]
    if not writing:
        return
    from fleet.kube.schema import definitions, schema_error  # noqa: PLC0415 - only when there is something to write

    changing = {kind for plan in plans for kind in definitions(plan)}
    errors = [await schema_error(client, seen.plan, changing) for seen in writing if seen.plan]
    problems = {seen.stack: problem for seen, problem in zip(writing, errors, strict=True) if problem}
    checked = tuple(replace(seen, problem=problems.get(seen.stack, seen.problem)) for seen in cluster_run.observed.seen)
    cluster_run.observed = replace(cluster_run.observed, seen=checked)


def _makes_ground(plan: Plan) -> bool:
    """Tell whether the plan makes a namespace or a kind, without which a server cannot try what belongs to it."""
    return any(step.key.kind in ("Namespace", "CustomResourceDefinition") for step in plan.having(Verb.CREATE))


def _count_writes(plan: Plan) -> int:
    return sum(step.verb.writes for step in plan.steps)


def _make_queue(
    cluster_runs: Sequence[ClusterRun],
    planned: Sequence[Result],
    bystanders: Sequence[ClusterRun],
    context: RunContext,
) -> RolloutQueue:
    """Return the queue of the run's changes, which knows how every watched stack is before the first of them."""
    order = context.hooks.rollout or RolloutContext({})
    watched = watched_stacks(order.stacks.values())
    beside = [result for cluster_results in _check_plans(bystanders, context) for result in cluster_results]
    placements = {
        (seen.stack, cluster_run.cluster): (cluster_run, seen)
        for cluster_run in (*cluster_runs, *bystanders)
        for seen in cluster_run.observed.seen
    }

    def find_state(result: Result) -> RolloutState:
        _, seen = placements.get((result.stack, result.cluster), (None, None))
        health = observe_health(seen.desired, seen.live)[0] if seen else "Unknown"
        state, now = state_before(result, health), order.clock()
        if not state.is_well:
            return replace(state, since=now)
        record = order.status_records.get((result.stack, result.cluster))
        return replace(state, since=healthy_since(replace(result, health=health), record, now))

    async def health(pair: StackCluster) -> str:
        cluster_run, seen = placements[pair]
        if cluster_run.client is None or seen.desired is None:
            return "Unknown"
        with impersonate(seen.account):
            state, _, _ = await wait_until_healthy(
                cluster_run.client, seen.desired, None, seconds=0.0, tell=lambda phase, detail: None
            )
        return state

    return RolloutQueue(
        order,
        {
            **order.elsewhere,
            **{
                (result.stack, result.cluster): find_state(result)
                for result in (*planned, *beside)
                if result.stack in watched
            },
        },
        {(r.stack, r.cluster) for r in planned if not r.problem and not r.suspended and r.plan},
        health,
        lambda stack, cluster, reason: context.progress.update(stack, cluster, "waiting", reason),
    )


def _collect_secrets(cluster_runs: Sequence[ClusterRun]) -> SecretValues:
    """Return every secret value that git wants or that was read."""
    live = {id(seen.live): seen.live for cluster_run in cluster_runs for seen in cluster_run.observed.seen if seen.live}
    return secrets_of_plan(
        (desired for cluster_run in cluster_runs for desired in cluster_run.target.desired), live.values()
    )


async def _open_all(stack: AsyncExitStack, targets: Sequence[ClusterTarget], context: RunContext) -> list[ClusterRun]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def open_limited(target: ClusterTarget) -> ClusterRun:
        async with limit:
            for desired in target.desired:
                context.progress.update(desired.stack, target.cluster.name, "looking")
            return await _open(stack, target, context)

    return list(await asyncio.gather(*(open_limited(target) for target in targets)))


async def _open(stack: AsyncExitStack, target: ClusterTarget, context: RunContext) -> ClusterRun:
    if target.cluster.pull:
        return ClusterRun(target, skipped="skipped, its own agent applies there")
    options = context.options
    try:
        early = await context.early.take(target) if context.early else None
        client = (
            early.client
            if early
            else await stack.enter_async_context(context.hooks.open_client(target.cluster, options))
        )
        return ClusterRun(
            target,
            client,
            await plan_cluster(
                client, target, options.claim, revision=context.revision, accounts=options.accounts, early=early
            ),
        )
    except FleetError as problem:
        return ClusterRun(target, problem=problem)


def _make_result(seen: StackPlan, cluster: str) -> Result:
    return Result(seen.stack, cluster, seen.plan, seen.problem, leaving=seen.desired is None)


def _observe_unchanged(seen: StackPlan, result: Result) -> Result:
    """Return the result of a stack to which nothing is done, with the health that it has."""
    health, objects = observe_health(seen.desired, seen.live)
    return replace(result, health=health, objects=objects)


def _stacks_to_change(cluster_runs: Sequence[ClusterRun]) -> list[str]:
    return sorted(
        {
            seen.stack
            for cluster_run in cluster_runs
            for seen in cluster_run.observed.seen
            if seen.plan and not seen.plan.empty
        }
    )


def _check_plans(
    cluster_runs: Sequence[ClusterRun], context: RunContext, elsewhere: Mapping[str, Suspension] = NOWHERE
) -> list[list[Result]]:
    """Return the results of each cluster, with what the rules of the repository refuse and what is suspended."""
    suspensions = read_suspensions(
        {cluster_run.cluster: cluster_run.observed for cluster_run in cluster_runs}, elsewhere
    )
    checked = []
    for cluster_run in cluster_runs:
        too_much = _check_budget(cluster_run, context) if cluster_run.client and not cluster_run.problem else None
        results = [_check_result(result, context, too_much) for result in cluster_run.results()]
        checked.append(mark_suspended(results, suspensions))
    return checked


def _check_budget(cluster_run: ClusterRun, context: RunContext) -> PolicyError | None:
    """Return the error if more is taken away from the cluster than the budget allows."""
    try:
        plans = [seen.plan for seen in cluster_run.observed.seen if seen.plan]
        context.hooks.check_budget(cluster_run.cluster, plans, context.options.budget)
    except PolicyError as problem:
        return problem
    return None


def _check_result(result: Result, context: RunContext, too_much: PolicyError | None) -> Result:
    """Return the result, with the error if the repository's own rules or the caller refuse its plan."""
    if result.plan is None or result.problem:
        return result
    try:
        refuse_forbidden(result.plan)
        if count_lost_objects(result.plan):
            check_share(result.plan, context.options.budget)
            if too_much:
                return replace(result, problem=too_much)
    except PolicyError as problem:
        return replace(result, problem=problem)
    objection = context.hooks.find_objection(result)
    return replace(result, problem=objection) if objection else result


async def _sync_cluster(
    cluster_run: ClusterRun, refused: dict[StackCluster, Result], queue: RolloutQueue, context: RunContext
) -> list[Result]:
    """Sync the stacks of one cluster, each after those that it needs and when the rollout lets it; return results."""
    progress = context.progress
    if cluster_run.client is None:
        for desired in cluster_run.target.desired:
            progress.update(
                desired.stack, cluster_run.cluster, "failed", cluster_run.problem.message if cluster_run.problem else ""
            )
        return cluster_run.results()
    client, tasks = cluster_run.client, dict[str, asyncio.Task[Result]]()
    allowed = [
        seen
        for seen in cluster_run.observed.seen
        if not seen.problem and (seen.stack, cluster_run.cluster) not in refused
    ]
    undefined = await _define_kinds(client, {kind for seen in allowed for kind in seen.undefined})

    async def sync_in_turn(seen: StackPlan, before: list[asyncio.Task[Result]]) -> Result:
        settled = refused.get((seen.stack, cluster_run.cluster))
        if before:
            progress.update(seen.stack, cluster_run.cluster, "waiting", "for stacks that it needs")
        failed = [result for result in [await task for task in before] if result.problem or result.unhealthy]
        if settled is None and failed:
            needed = ResourceError(
                f"{cluster_run.cluster}: {seen.stack} needs stack {failed[0].stack}, which failed there"
            )
            settled = replace(_make_result(seen, cluster_run.cluster), problem=needed)
        if settled is None and seen.undefined and undefined:
            settled = replace(_make_result(seen, cluster_run.cluster), problem=undefined)
        if settled is None and seen.plan is not None and (waits := await queue.turn(seen.plan)):
            settled = replace(_make_result(seen, cluster_run.cluster), problem=waits)
        result = _observe_unchanged(seen, settled) if settled else await _sync_stack(client, seen, context)
        queue.over(result)
        error = result.problem or result.unhealthy
        progress.update(seen.stack, cluster_run.cluster, _phase(result), error.message if error else result.words)
        return result

    for seen in cluster_run.observed.seen:  # in an order in which what is needed comes first
        needs = (
            () if context.hooks.rollout else cluster_run.target.needs.get(seen.stack, ())
        )  # with an order, it is the gates' to say
        before = [tasks[name] for name in needs if name in tasks]
        tasks[seen.stack] = asyncio.create_task(sync_in_turn(seen, before))
    try:
        return list(await asyncio.gather(*tasks.values()))
    finally:  # nothing goes on after the caller heard that a stack failed
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def _phase(result: Result) -> str:
    if isinstance(result.problem, WaitingError):
        return "waiting"
    if result.problem or result.unhealthy:
        return "failed"
    return "no changes" if result.words == "no changes" else "done"


async def _define_kinds(client: Client, kinds: set[Kind]) -> FleetError | None:
    if not kinds:
        return None  # nothing that writes is loaded then
    try:
        await apply_definitions(client, kinds)
    except FleetError as problem:
        return problem
    return None


async def _sync_stack(client: Client, seen: StackPlan, context: RunContext) -> Result:
    """Apply the plan of one stack in one cluster, wait for its health, and return the result."""
    options = context.options
    result = _make_result(seen, client.cluster)
    plan = seen.plan

    def tell(phase: str, detail: str) -> None:
        context.progress.update(seen.stack, client.cluster, phase, detail)

    try:
        if plan is not None and not plan.empty:
            from fleet.apply.steps import StepState  # noqa: PLC0415 - what writes is loaded when there is something to write
            from fleet.sync.apply import apply_stack  # noqa: PLC0415

            plan, outcome = await apply_stack(
                client,
                seen,
                options.claim,
                revision=context.revision,
                delete_seconds=options.timeout if options.wait else 0.0,
                lease_seconds=options.lease_seconds,
                health_seconds=options.timeout if options.wait else 0.0,
                tell=tell,
                gate=context.hooks.approval,
            )
            problem = error_of(plan, outcome)
            result = replace(result, plan=plan, done=count_done(outcome), problem=problem)
            pending = outcome.having(StepState.PENDING)
            if pending and options.wait and not problem:
                message = (
                    f"{client.cluster}: {pending[0].step.key} is {pending[0].reason} after {options.timeout:.0f} s"
                )
                result = replace(result, problem=FleetTimeoutError(message))
        elif plan is not None:
            result = replace(result, problem=error_of(plan, None))
        if seen.desired is not None:
            live = None if any(verb.writes for verb in result.done) else seen.live
            seconds = options.timeout if options.wait and not result.problem else 0.0
            after = replace(seen, plan=result.plan)
            already_read = inert_health(seen.desired, after.unchanged_objects()) if live is None else {}
            with impersonate(seen.account):
                health, objects, late = await wait_until_healthy(
                    client, seen.desired, live, seconds=seconds, tell=tell, already_read=already_read
                )
            if options.wait and isinstance(
                result.problem, PartiallyAppliedError
            ):  # it was waited for, and why in vain is said
                late = degraded_error(client.cluster, objects)
            result = replace(result, health=health, objects=objects, unhealthy=late)
    except FleetError as problem:
        return _observe_unchanged(seen, replace(result, problem=problem))
    return result


def _remarks(cluster_runs: Sequence[ClusterRun], *, planned: bool) -> tuple[str, ...]:
    return tuple(remark for cluster_run in cluster_runs for remark in cluster_run.remarks(planned=planned))


def _clusters_seen(cluster_runs: Sequence[ClusterRun]) -> frozenset[str]:
    return frozenset(
        cluster_run.cluster for cluster_run in cluster_runs if cluster_run.client and not cluster_run.problem
    )


def _orphans(cluster_runs: Sequence[ClusterRun]) -> tuple[tuple[str, str], ...]:
    return tuple((stack, cluster_run.cluster) for cluster_run in cluster_runs for stack in cluster_run.observed.orphans)
