"""Apply one stack under its Lease; dry run.

What depends on an app is applied when that is healthy as git wants it now.

Whoever has time waits here for that. Without, the step is left out: whoever looks next, because the app changed, goes
on.

Carry out what was planned for one stack in one cluster: under its Lease, from a plan made again under it.

The plan that was shown is a promise: the one made under the Lease may do less than it, never something more
destructive. Nothing is taken, not even the Lease, when there is nothing to write.

Plans with what each server has against them in a dry run: reads and dry runs only.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.apply.executor import apply
from fleet.apply.inventory import StalePlanError, StoredInventory, load
from fleet.apply.steps import Outcome
from fleet.apply.steps import Result as StepResult
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
from fleet.sync.result import ApprovalCheck, Result, refuse_forbidden, refuse_new_deletions

PAUSE = 1.0  # between two looks at one object, however many wait for it
_BY_EXISTING = frozenset(  # well as soon as they are there; most objects depend on such, and nobody has to look
    {
        *(("", kind) for kind in ("Namespace", "ConfigMap", "Secret", "ServiceAccount")),
        *(("rbac.authorization.k8s.io", kind) for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")),
    }
)

_UNSEEN = Health(State.UNKNOWN)
_ELSEWHERE = Health(State.HEALTHY, "what is not there has another name by now")


class DependencyWaiter:
    """For the steps of one plan: why one is not done yet, after waiting so many seconds for what it depends on."""

    def __init__(self, client: Client, seconds: float = 0.0, tell: Callable[[str], None] = lambda reason: None) -> None:
        self._client = client
        self._seconds = seconds
        self._tell = tell
        self._found: dict[Key, tuple[Health, float]] = {}  # and when that was seen
        self._looking: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    def concerns(self, step: Step) -> bool:
        return step.verb is not Verb.DELETE and any(_may_be_ill(key) for key in step.depends_on)

    async def __call__(self, step: Step) -> str:
        """ "" when nothing keeps the step."""
        begun = time.monotonic()
        for key in filter(_may_be_ill, step.depends_on):
            while not (health := await self._health(key)).state.is_settled:
                reason = f"{key} is {health}"
                unreported = health.state is State.UNKNOWN
                patience = min(self._seconds, OPERATOR_SECONDS) if unreported else self._seconds
                if health.final or time.monotonic() - begun >= patience:
                    return reason
                self._tell(reason)
                await asyncio.sleep(PAUSE)
        return ""

    async def _health(self, key: Key) -> Health:
        """Found well once, it counts as that for the whole plan."""
        async with self._looking[key]:
            health, seen = self._found.get(key, (_UNSEEN, 0.0))
            if not health.is_settled and time.monotonic() - seen >= PAUSE:
                live = await read_live(self._client, (key,))
                around = await read_around(self._client, live)
                health = judge(live[key], around) if live[key] is not None else _ELSEWHERE
                self._found[key] = health, time.monotonic()
            return health


def _may_be_ill(key: Key) -> bool:
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
    gate: ApprovalCheck | None = None,
    health_seconds: float = 0.0,
) -> tuple[Plan, Outcome]:
    """What was done, and the plan by which it was. What depends on an app waits `health_seconds` for its health."""

    def waiting(holder: str) -> None:
        tell("waiting", f"another sync of it is running: {holder}")

    async with Lease(client, seen.stack, wait=lease_seconds, on_wait=waiting):
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                made, stored = await _again(client, seen, claim, revision=revision, gate=gate)
                seconds = {"delete_seconds": delete_seconds, "health_seconds": health_seconds}
                return await _carry_out(client, made, stored, tell, account=seen.account, **seconds)
            except StalePlanError:
                if attempt == MOST_ATTEMPTS:
                    raise
    raise AssertionError("unreachable")


async def _again(
    client: Client, seen: StackPlan, claim: RepositoryOwnership, *, revision: str, gate: ApprovalCheck | None
) -> tuple[Plan, StoredInventory]:
    """The plan as it is under the Lease, and what it was made from."""
    if seen.desired is None:
        stored = await load(client, seen.stack, client.cluster)
        made = plan_removed_placement(stored.inventory, claim)
    else:
        stored, made = await replan_stack(client, seen.desired, claim, before=seen, revision=revision)
    made = select_steps(restore_explanations(made, seen.plan) if seen.plan else made, seen.narrowing)
    _refuse_suspended(stored, client.cluster)
    refuse_forbidden(made)
    if seen.plan is not None:
        refuse_new_deletions(seen.plan, made)
    if gate:
        gate.check(made)
    return made, stored


async def _carry_out(
    client: Client,
    made: Plan,
    stored: StoredInventory,
    tell: Tell,
    *,
    delete_seconds: float,
    health_seconds: float,
    account: str,
) -> tuple[Plan, Outcome]:
    total = sum(step.verb.writes for step in made.steps)
    counted: Counter[str] = Counter()

    def on_result(result: StepResult) -> None:
        if result.step.verb.writes:
            counted["done"] += 1
            tell("applying", f"{counted['done']}/{total}  {SIGNS[result.step.verb][0]} {result.step.key}")

    tell(*(("applying", f"0/{total}") if total else ("recording", "")))
    hold = DependencyWaiter(client, health_seconds, lambda reason: tell("waiting", reason))
    done = await apply(
        client,
        made,
        stored,
        on_result=on_result,
        delete_seconds=delete_seconds,
        hold=hold,
        account=account,
    )
    return made, done


def _refuse_suspended(stored: StoredInventory, cluster: str) -> None:
    """Whoever suspends a stack waits for its Lease: what comes after that finds the word."""
    if stored.inventory.suspension:
        stack = stored.inventory.stack
        raise PolicyError(
            f"{cluster}: {stack} was {stored.inventory.suspension}", hint=f"when it may go on: fleet resume {stack}"
        )


@dataclass(frozen=True, slots=True)
class DryRun:
    results: tuple[Result, ...]
    remarks: tuple[str, ...] = ()


async def dry_run(client: Client, results: Sequence[Result], accounts: Mapping[str, str]) -> DryRun:
    """Of one cluster. What the server refuses in a dry run is said at the object, and is a problem of its stack."""
    from fleet.apply.dry_run import dry_run  # noqa: PLC0415 - brings aiohttp, which looking does not need

    done: list[Result] = []
    untried = 0
    for one in results:
        if one.plan is None or one.problem:
            done.append(one)
            continue
        try:
            with impersonate(accounts.get(one.stack, "")):
                found = await dry_run(client, one.plan)
        except FleetError as problem:
            done.append(replace(one, problem=problem))
            continue
        untried += len(found.forbidden)
        done.append(replace(one, plan=_with(one.plan, found.objections)) if found.objections else one)
    word = "change is" if untried == 1 else "changes are"
    remark = f"{client.cluster}: {untried} {word} not tried in a dry run: no right to"
    return DryRun(tuple(done), (remark,) if untried else ())


def _with(plan: Plan, objections: Mapping[Key, str]) -> Plan:
    steps = tuple(
        step._replace(objection=objections[step.key]) if step.key in objections else step for step in plan.steps
    )
    return replace(plan, steps=steps)
