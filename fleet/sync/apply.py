"""Carry out what was planned for one stack in one cluster: under its Lease, from a plan made again under it.

The plan that was shown is a promise: the one made under the Lease may do less than it, never something more
destructive. Nothing is taken, not even the Lease, when there is nothing to write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fleet.errors import PolicyError
from fleet.kube.apply import apply
from fleet.kube.client import Client
from fleet.kube.inventory import StalePlanError, Stored, load
from fleet.kube.lease import Lease
from fleet.kube.result import Outcome
from fleet.kube.result import Result as StepResult
from fleet.plan import Claim, Plan, leave
from fleet.plan.narrow import narrowed
from fleet.plan.rivals import recalled
from fleet.plan.text import SIGNS
from fleet.sync.gate import Gate
from fleet.sync.healthy_first import HealthyFirst
from fleet.sync.look import Seen, look_again
from fleet.sync.verdict import refuse_forbidden, refuse_more

MOST_ATTEMPTS = 3
Tell = Callable[[str, str], None]


async def carry_out(
    client: Client,
    seen: Seen,
    claim: Claim,
    *,
    revision: str,
    delete_seconds: float,
    lease_seconds: float,
    tell: Tell,
    gate: Gate | None = None,
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


async def _again(client: Client, seen: Seen, claim: Claim, *, revision: str, gate: Gate | None) -> tuple[Plan, Stored]:
    """The plan as it is under the Lease, and what it was made from."""
    if seen.desired is None:
        stored = await load(client, seen.stack, client.cluster)
        made = leave(stored.inventory, claim)
    else:
        stored, made = await look_again(client, seen.desired, claim, before=seen, revision=revision)
    made = narrowed(recalled(made, seen.plan) if seen.plan else made, seen.narrowing)
    _refuse_suspended(stored, client.cluster)
    refuse_forbidden(made)
    if seen.plan is not None:
        refuse_more(seen.plan, made)
    if gate:
        gate.check(made)
    return made, stored


async def _carry_out(
    client: Client,
    made: Plan,
    stored: Stored,
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
    hold = HealthyFirst(client, health_seconds, lambda reason: tell("waiting", reason))
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


def _refuse_suspended(stored: Stored, cluster: str) -> None:
    """Whoever suspends a stack waits for its Lease: what comes after that finds the word."""
    if stored.inventory.suspension:
        stack = stored.inventory.stack
        raise PolicyError(
            f"{cluster}: {stack} was {stored.inventory.suspension}", hint=f"when it may go on: fleet resume {stack}"
        )
