"""Application of one stack's plan in one cluster, under the stack's Lease; and dry runs of plans.

The plan that the user saw is a promise. The one that is made again under the Lease may do less than it, never something
more destructive. A run calls this only for a plan that is not empty: nothing is taken, not even the Lease, when there
is nothing to write.

An object that depends on an app is applied when the app is healthy at what git wants now. A user or service with a
timeout waits for that here. Without one the step is left out: the next reconcile, which the change of the app starts,
goes on from there.

A dry run sends reads and dry-run requests only. It returns the plans with what each API server objects to.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.apply.executor import apply
from fleet.apply.inventory import StalePlanError, StoredInventory, load
from fleet.apply.steps import StepOutcome, StepResult
from fleet.errors import FleetError, PolicyError
from fleet.kube.client.client import Client, impersonate
from fleet.kube.health import Health, State, judge
from fleet.kube.lease import Lease
from fleet.kube.live import read_around, read_live
from fleet.objects.desired import Key
from fleet.plan import Plan, RepositoryOwnership, plan_removed_placement
from fleet.plan.ownership import restore_explanations
from fleet.plan.selection import select_steps
from fleet.plan.step import Step, Verb
from fleet.plan.views.text import SIGNS
from fleet.sync.health import OPERATOR_SECONDS
from fleet.sync.planning import StackPlan, replan_stack
from fleet.sync.result import PlanApproval, Result, refuse_forbidden, refuse_new_deletions

PAUSE = 1.0  # seconds between two reads of one object, however many steps wait for it
_BY_EXISTING = frozenset(  # healthy as soon as they exist; most objects depend on such kinds, and no read is needed
    {
        *(("", kind) for kind in ("Namespace", "ConfigMap", "Secret", "ServiceAccount")),
        *(("rbac.authorization.k8s.io", kind) for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")),
    }
)

_UNSEEN = Health(State.UNKNOWN)
_ELSEWHERE = Health(State.HEALTHY, "what is not there has another name by now")


class DependencyWaiter:
    """Waiter for what the steps of one plan depend on, for at most `seconds` per step."""

    def __init__(self, client: Client, seconds: float = 0.0, tell: Callable[[str], None] = lambda reason: None) -> None:
        self._client = client
        self._seconds = seconds
        self._tell = tell
        self._found: dict[Key, tuple[Health, float]] = {}  # health, and when it was read, by the monotonic clock
        self._looking: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    def concerns(self, step: Step) -> bool:
        """Return whether the step has to wait for the health of another object."""
        return step.verb is not Verb.DELETE and any(_may_be_unhealthy(key) for key in step.depends_on)

    async def __call__(self, step: Step) -> str:
        """Wait for what the step depends on. Return why the step may still not begin; "" if nothing keeps it."""
        started = time.monotonic()
        for key in filter(_may_be_unhealthy, step.depends_on):
            while not (health := await self._health(key)).state.is_settled:
                reason = f"{key} is {health}"
                unreported = health.state is State.UNKNOWN
                patience = min(self._seconds, OPERATOR_SECONDS) if unreported else self._seconds
                if health.final or time.monotonic() - started >= patience:
                    return reason
                self._tell(reason)
                await asyncio.sleep(PAUSE)
        return ""

    async def _health(self, key: Key) -> Health:
        """Return the health of the object. Once seen healthy, it counts as healthy for the whole plan."""
        async with self._looking[key]:
            health, seen = self._found.get(key, (_UNSEEN, 0.0))
            if not health.is_settled and time.monotonic() - seen >= PAUSE:
                live = await read_live(self._client, (key,))
                around = await read_around(self._client, live)
                health = judge(live[key], around) if live[key] is not None else _ELSEWHERE
                self._found[key] = health, time.monotonic()
            return health


def _may_be_unhealthy(key: Key) -> bool:
    return (key.group, key.kind) not in _BY_EXISTING


MOST_ATTEMPTS = 3
Tell = Callable[[str, str], None]


async def apply_stack(
    client: Client,
    seen: StackPlan,
    claim: RepositoryOwnership,
    *,
    revision: str,
    delete_seconds: float,
    lease_seconds: float,
    tell: Tell,
    gate: PlanApproval | None = None,
    health_seconds: float = 0.0,
) -> tuple[Plan, StepOutcome]:
    """Apply the stack under its Lease; return the plan that was carried out and its outcome.

    What depends on an app waits `health_seconds` for the health of that app. The plan is made again when another sync
    changed the inventory meanwhile; raise StalePlanError when that happens in each of MOST_ATTEMPTS attempts.
    """

    def report_waiting(holder: str) -> None:
        tell("waiting", f"another sync of it is running: {holder}")

    async with Lease(client, seen.stack, wait=lease_seconds, on_wait=report_waiting):
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                plan, inventory = await _replan_checked(client, seen, claim, revision=revision, gate=gate)
                seconds = {"delete_seconds": delete_seconds, "health_seconds": health_seconds}
                return await _execute_plan(client, plan, inventory, tell, account=seen.account, **seconds)
            except StalePlanError:
                if attempt == MOST_ATTEMPTS:
                    raise
    raise AssertionError("unreachable")


async def _replan_checked(
    client: Client, seen: StackPlan, claim: RepositoryOwnership, *, revision: str, gate: PlanApproval | None
) -> tuple[Plan, StoredInventory]:
    """Plan the stack again under the Lease; return the plan and the inventory that it was made from.

    Raise PolicyError when the stack is suspended by now or the plan breaks the repository's rules, ConflictError when
    it would delete what was not shown, and what the approval check raises.
    """
    if seen.desired is None:
        stored = await load(client, seen.stack, client.cluster)
        plan = plan_removed_placement(stored.inventory, claim)
    else:
        stored, plan = await replan_stack(client, seen.desired, claim, before=seen, revision=revision)
    plan = select_steps(restore_explanations(plan, seen.plan) if seen.plan else plan, seen.narrowing)
    _refuse_suspended(stored, client.cluster)
    refuse_forbidden(plan)
    if seen.plan is not None:
        refuse_new_deletions(seen.plan, plan)
    if gate:
        gate.check(plan)
    return plan, stored


async def _execute_plan(
    client: Client,
    plan: Plan,
    stored: StoredInventory,
    tell: Tell,
    *,
    delete_seconds: float,
    health_seconds: float,
    account: str,
) -> tuple[Plan, StepOutcome]:
    """Carry the plan out and report each write; return the plan and its outcome."""
    total = sum(step.verb.writes for step in plan.steps)
    counts: Counter[str] = Counter()

    def on_result(result: StepResult) -> None:
        if result.step.verb.writes:
            counts["done"] += 1
            tell("applying", f"{counts['done']}/{total}  {SIGNS[result.step.verb][0]} {result.step.key}")

    tell(*(("applying", f"0/{total}") if total else ("recording", "")))
    waiter = DependencyWaiter(client, health_seconds, lambda reason: tell("waiting", reason))
    outcome = await apply(
        client,
        plan,
        stored,
        on_result=on_result,
        delete_seconds=delete_seconds,
        hold=waiter,
        account=account,
    )
    return plan, outcome


def _refuse_suspended(stored: StoredInventory, cluster: str) -> None:
    """Raise PolicyError if the stack is suspended.

    A user who suspends a stack waits for its Lease, so a sync that takes the Lease afterwards finds the suspension in
    the inventory.
    """
    if stored.inventory.suspension:
        stack = stored.inventory.stack
        raise PolicyError(
            f"{cluster}: {stack} was {stored.inventory.suspension}", hint=f"when it may go on: fleet resume {stack}"
        )


@dataclass(frozen=True, slots=True)
class ClusterDryRun:
    """Results of one cluster after a dry run, with remarks for the user."""

    results: tuple[Result, ...]
    remarks: tuple[str, ...] = ()


async def dry_run(client: Client, results: Sequence[Result], accounts: Mapping[str, str]) -> ClusterDryRun:
    """Try the plans of one cluster in a dry run; return the results with what the API server objects to.

    An objection is set at its step. A dry run that fails as a whole is the problem of its stack.
    """
    from fleet.apply.dry_run import dry_run  # noqa: PLC0415 - a sync without it loads less

    tried_results: list[Result] = []
    untried = 0
    for result in results:
        if result.plan is None or result.problem:
            tried_results.append(result)
            continue
        try:
            with impersonate(accounts.get(result.stack, "")):
                trial = await dry_run(client, result.plan)
        except FleetError as problem:
            tried_results.append(replace(result, problem=problem))
            continue
        untried += len(trial.forbidden)
        tried_results.append(
            replace(result, plan=_add_objections(result.plan, trial.objections)) if trial.objections else result
        )
    noun = "change is" if untried == 1 else "changes are"
    remark = f"{client.cluster}: {untried} {noun} not tried in a dry run: no right to"
    return ClusterDryRun(tuple(tried_results), (remark,) if untried else ())


def _add_objections(plan: Plan, objections: Mapping[Key, str]) -> Plan:
    """Return the plan with each objection set at the step of its object."""
    steps = tuple(
        step._replace(objection=objections[step.key]) if step.key in objections else step for step in plan.steps
    )
    return replace(plan, steps=steps)
