"""All clusters: first every one is looked at and the plan shown, then each is changed when it is its turn.

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
    """One cluster during a run: reached and looked at, or the problem that there is instead."""

    target: ClusterTarget
    client: Client | None = None
    look: ClusterPlan = field(default_factory=lambda: ClusterPlan(()))
    problem: FleetError | None = None
    skipped: str = ""

    @property
    def cluster(self) -> str:
        return self.target.cluster.name

    def results(self) -> list[Result]:
        """Where every stack of this cluster stands after looking."""
        if self.problem:
            return [Result(one.stack, self.cluster, problem=self.problem) for one in self.target.desired]
        return [_looked_at(seen, self.cluster) for seen in self.look.seen]

    def remarks(self, *, planned: bool) -> list[str]:
        """What a person should know besides; `planned`: before anything was done."""
        if self.skipped:
            return [f"{self.cluster}: {self.skipped}"]
        if self.problem:
            unknown = f"{self.cluster}: not known whether there is something to forget: {self.problem.message}"
            return [] if self.target.desired else [unknown]
        kinds = sorted({kind for seen in self.look.seen if not seen.problem for _, _, kind in seen.undefined})
        missing = [f"{self.cluster}: the kind {kind} is not defined there yet; sync defines it" for kind in kinds]
        return [*(missing if planned else []), *self._orphans()]

    def _orphans(self) -> list[str]:
        if not self.look.orphans:
            return []
        names = ", ".join(self.look.orphans[:5]) + (" and others" if len(self.look.orphans) > 5 else "")
        return [f"{self.cluster}: in no file of this repository (any more): {names}; `fleet destroy STACK` removes one"]


@dataclass(frozen=True, slots=True)
class Run:
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
        sites = await _open_all(stack, targets, context)
        await asyncio.gather(*(_check_schema(site, least=1, tried=options.dry_run) for site in sites))
        hidden = _hidden(sites)
        looked = _judged(sites, context)
        remarks = _remarks(sites, planned=True)
        if options.dry_run:
            looked, more = await _rehearsed(sites, looked)
            remarks = (*remarks, *more)
        results = [redact_result(result, hidden) for its in looked for result in its]
        for result in results:
            progress.update(result.stack, result.cluster, "failed" if result.problem else "done")
        return Run(tuple(results), remarks, _orphans(sites))


async def _rehearsed(sites: Sequence[ClusterRun], looked: list[list[Result]]) -> tuple[list[list[Result]], list[str]]:
    """All clusters at once; what could not be looked at is not tried either."""
    from fleet.sync.apply import DryRun, dry_run  # noqa: PLC0415 - not for those who only look

    async def one(site: ClusterRun, results: list[Result]) -> DryRun:
        accounts = {seen.stack: seen.account for seen in site.look.seen}
        return await dry_run(site.client, results, accounts) if site.client else DryRun(tuple(results))

    done = await asyncio.gather(*(one(site, results) for site, results in zip(sites, looked, strict=True)))
    return [list(each.results) for each in done], [line for each in done for line in each.remarks]


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
        sites = await _open_all(stack, targets, context)
        beside = hooks.rollout.bystanders if hooks.rollout else ()
        others = await _open_all(stack, beside, replace(context, progress=LineProgress(said=False)))
        await asyncio.gather(
            *(_check_schema(site, least=2) for site in sites)
        )  # the server refuses one write as a whole
        hidden = _hidden([*sites, *others])
        words = await hooks.read_suspensions(_to_be_changed(sites))
        planned = [redact_result(result, hidden) for its in _judged(sites, context, words) for result in its]
        if any(one.is_to_do for one in planned):
            planned = await hooks.judge(planned)
        hooks.confirm(Run(tuple(planned), _remarks(sites, planned=True), _orphans(sites)))
        refused = {(one.stack, one.cluster): one for one in planned if one.problem or one.suspended}
        context = replace(context, progress=RedactedProgress(progress, hidden))
        turns = await stack.enter_async_context(_turns(sites, planned, others, context).kept())
        done = await asyncio.gather(*(_work(site, refused, turns, context) for site in sites))
        results = tuple(redact_result(result, hidden) for results in done for result in results)
        return Run(results, _remarks(sites, planned=False), looked_at=_clusters_seen(sites))


async def _check_schema(site: ClusterRun, *, least: int, tried: bool = False) -> None:
    """Give each stack whose plan has so many writes the problem that the schema finds: nothing of it is written.

    What is `tried` in a dry run is left to the server, which cannot try what belongs to a new namespace or kind.
    """
    if site.client is None or site.problem:
        return
    client, plans = site.client, [seen.plan for seen in site.look.seen if seen.plan]
    writing = [seen for seen in site.look.seen if seen.plan and not seen.problem and _writes(seen.plan) >= least]
    writing = [seen for seen in writing if not tried or (seen.plan and _makes_ground(seen.plan))]
    if not writing:
        return
    from fleet.kube.schema import definitions, schema_error  # noqa: PLC0415 - only when there is something to write

    changing = {kind for made in plans for kind in definitions(made)}
    found = [await schema_error(client, seen.plan, changing) for seen in writing if seen.plan]
    problems = {seen.stack: problem for seen, problem in zip(writing, found, strict=True) if problem}
    seen = tuple(replace(one, problem=problems.get(one.stack, one.problem)) for one in site.look.seen)
    site.look = replace(site.look, seen=seen)


def _makes_ground(made: Plan) -> bool:
    """Tell whether the plan makes a namespace or a kind, without which a server cannot try what belongs to it."""
    return any(step.key.kind in ("Namespace", "CustomResourceDefinition") for step in made.having(Verb.CREATE))


def _writes(made: Plan) -> int:
    return sum(step.verb.writes for step in made.steps)


def _turns(
    sites: Sequence[ClusterRun],
    planned: Sequence[Result],
    others: Sequence[ClusterRun],
    context: RunContext,
) -> RolloutQueue:
    """Who asks for a turn in this run, and how everything is before the first one gets it."""
    order = context.hooks.rollout or RolloutContext({})
    matters = watched_stacks(order.stacks.values())
    beside = [result for its in _judged(others, context) for result in its]
    places = {(seen.stack, site.cluster): (site, seen) for site in (*sites, *others) for seen in site.look.seen}

    def standing(result: Result) -> RolloutState:
        _, seen = places.get((result.stack, result.cluster), (None, None))
        health = observe_health(seen.desired, seen.live)[0] if seen else "Unknown"
        found, now = state_before(result, health), order.clock()
        told = order.told.get((result.stack, result.cluster))
        return replace(found, since=healthy_since(replace(result, health=health), told, now) if found.is_well else now)

    async def health(pair: StackCluster) -> str:
        site, seen = places[pair]
        if site.client is None or seen.desired is None:
            return "Unknown"
        with impersonate(seen.account):
            found = await wait_until_healthy(
                site.client, seen.desired, None, seconds=0.0, tell=lambda phase, detail: None
            )
        return found[0]

    return RolloutQueue(
        order,
        {
            **order.elsewhere,
            **{(one.stack, one.cluster): standing(one) for one in (*planned, *beside) if one.stack in matters},
        },
        {(one.stack, one.cluster) for one in planned if not one.problem and not one.suspended and one.plan},
        health,
        lambda stack, cluster, reason: context.progress.update(stack, cluster, "waiting", reason),
    )


def _hidden(sites: Sequence[ClusterRun]) -> SecretValues:
    """Every secret value that came into sight."""
    live = {id(seen.live): seen.live for site in sites for seen in site.look.seen if seen.live}
    return secrets_of_plan((one for site in sites for one in site.target.desired), live.values())


async def _open_all(stack: AsyncExitStack, targets: Sequence[ClusterTarget], context: RunContext) -> list[ClusterRun]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def opened(target: ClusterTarget) -> ClusterRun:
        async with gate:
            for one in target.desired:
                context.progress.update(one.stack, target.cluster.name, "looking")
            return await _open(stack, target, context)

    return list(await asyncio.gather(*(opened(target) for target in targets)))


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


def _looked_at(seen: StackPlan, cluster: str) -> Result:
    return Result(seen.stack, cluster, seen.plan, seen.problem, leaving=seen.desired is None)


def _left_alone(seen: StackPlan, result: Result) -> Result:
    """A stack to which nothing is done: with the health that it has."""
    health, objects = observe_health(seen.desired, seen.live)
    return replace(result, health=health, objects=objects)


def _to_be_changed(sites: Sequence[ClusterRun]) -> list[str]:
    return sorted({seen.stack for site in sites for seen in site.look.seen if seen.plan and not seen.plan.empty})


def _judged(
    sites: Sequence[ClusterRun], context: RunContext, elsewhere: Mapping[str, Suspension] = NOWHERE
) -> list[list[Result]]:
    """By cluster: where every stack stands, with what the rules and those who suspended it have to say."""
    words = read_suspensions({site.cluster: site.look for site in sites}, elsewhere)
    judged = []
    for site in sites:
        too_much = _too_much(site, context) if site.client and not site.problem else None
        judged.append(mark_suspended([_checked(result, context, too_much) for result in site.results()], words))
    return judged


def _too_much(site: ClusterRun, context: RunContext) -> PolicyError | None:
    """What speaks against all that is taken away from a cluster."""
    try:
        plans = [seen.plan for seen in site.look.seen if seen.plan]
        context.hooks.check_budget(site.cluster, plans, context.options.budget)
    except PolicyError as problem:
        return problem
    return None


def _checked(result: Result, context: RunContext, too_much: PolicyError | None) -> Result:
    """With the problem that the repository's own rules make of the plan, if any."""
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
    against = context.hooks.find_objection(result)
    return replace(result, problem=against) if against else result


async def _work(
    site: ClusterRun, refused: dict[StackCluster, Result], turns: RolloutQueue, context: RunContext
) -> list[Result]:
    """The stacks of one cluster, each after those that it needs, and when it is its turn."""
    progress = context.progress
    if site.client is None:
        for one in site.target.desired:
            progress.update(one.stack, site.cluster, "failed", site.problem.message if site.problem else "")
        return site.results()
    client, tasks = site.client, dict[str, asyncio.Task[Result]]()
    wanted = [one for one in site.look.seen if not one.problem and (one.stack, site.cluster) not in refused]
    undefined = await _defined(client, {kind for one in wanted for kind in one.undefined})

    async def work(seen: StackPlan, before: list[asyncio.Task[Result]]) -> Result:
        known = refused.get((seen.stack, site.cluster))
        if before:
            progress.update(seen.stack, site.cluster, "waiting", "for stacks that it needs")
        broken = [result for result in [await task for task in before] if result.problem or result.unhealthy]
        if known is None and broken:
            needed = ResourceError(f"{site.cluster}: {seen.stack} needs stack {broken[0].stack}, which failed there")
            known = replace(_looked_at(seen, site.cluster), problem=needed)
        if known is None and seen.undefined and undefined:
            known = replace(_looked_at(seen, site.cluster), problem=undefined)
        if known is None and seen.plan is not None and (waits := await turns.turn(seen.plan)):
            known = replace(_looked_at(seen, site.cluster), problem=waits)
        result = _left_alone(seen, known) if known else await _one(client, seen, context)
        turns.over(result)
        error = result.problem or result.unhealthy
        progress.update(seen.stack, site.cluster, _phase(result), error.message if error else result.words)
        return result

    for seen in site.look.seen:  # in an order in which what is needed comes first
        needs = (
            () if context.hooks.rollout else site.target.needs.get(seen.stack, ())
        )  # with an order, it is the gates' to say
        before = [tasks[name] for name in needs if name in tasks]
        tasks[seen.stack] = asyncio.create_task(work(seen, before))
    try:
        return list(await asyncio.gather(*tasks.values()))
    finally:  # nothing goes on behind the back of whoever hears that one failed
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def _phase(result: Result) -> str:
    if isinstance(result.problem, WaitingError):
        return "waiting"
    if result.problem or result.unhealthy:
        return "failed"
    return "no changes" if result.words == "no changes" else "done"


async def _defined(client: Client, kinds: set[Kind]) -> FleetError | None:
    try:
        await apply_definitions(client, kinds)
    except FleetError as problem:
        return problem
    return None


async def _one(client: Client, seen: StackPlan, context: RunContext) -> Result:
    """One stack in one cluster, to the end."""
    options = context.options
    result = _looked_at(seen, client.cluster)
    made = seen.plan

    def tell(phase: str, detail: str) -> None:
        context.progress.update(seen.stack, client.cluster, phase, detail)

    try:
        if made is not None and not made.empty:
            from fleet.apply.steps import State  # noqa: PLC0415 - what writes is loaded when there is something to write
            from fleet.sync.apply import apply_stack  # noqa: PLC0415

            made, outcome = await apply_stack(
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
            problem = error_of(made, outcome)
            result = replace(result, plan=made, done=count_done(outcome), problem=problem)
            going = outcome.having(State.PENDING)
            if going and options.wait and not problem:
                message = f"{client.cluster}: {going[0].step.key} is {going[0].reason} after {options.timeout:.0f} s"
                result = replace(result, problem=FleetTimeoutError(message))
        elif made is not None:
            result = replace(result, problem=error_of(made, None))
        if seen.desired is not None:
            fresh = None if any(verb.writes for verb in result.done) else seen.live
            seconds = options.timeout if options.wait and not result.problem else 0.0
            known = inert_health(seen.desired, replace(seen, plan=result.plan).untouched()) if fresh is None else {}
            with impersonate(seen.account):
                health, objects, late = await wait_until_healthy(
                    client, seen.desired, fresh, seconds=seconds, tell=tell, known=known
                )
            if options.wait and isinstance(
                result.problem, PartiallyAppliedError
            ):  # it was waited for, and why in vain is said
                late = degraded_error(client.cluster, objects)
            result = replace(result, health=health, objects=objects, unhealthy=late)
    except FleetError as problem:
        return _left_alone(seen, replace(result, problem=problem))
    return result


def _remarks(sites: Sequence[ClusterRun], *, planned: bool) -> tuple[str, ...]:
    return tuple(remark for site in sites for remark in site.remarks(planned=planned))


def _clusters_seen(sites: Sequence[ClusterRun]) -> frozenset[str]:
    return frozenset(site.cluster for site in sites if site.client and not site.problem)


def _orphans(sites: Sequence[ClusterRun]) -> tuple[tuple[str, str], ...]:
    return tuple((stack, site.cluster) for site in sites for stack in site.look.orphans)
