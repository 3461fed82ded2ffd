"""Execution of a plan: intents first, then creates and changes, then deletes, then the inventory as it came to be.

A crash at any point is resumable, because the inventory is never behind the cluster: an object that is to be made is
recorded (without UID) before the first request that could make it, and an entry is dropped only after the object is
confirmed to be gone. Nothing is deleted while something of the stack could not be applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from fleet.apply import order
from fleet.apply.inventory import StoredInventory, save, verify
from fleet.apply.steps import Execution, StepOutcome, StepResult, StepState
from fleet.kube.client.client import Client, impersonate
from fleet.kube.concurrency import run_in_order
from fleet.objects.desired import Key
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.step import Plan, Step, Verb
from fleet.text import count_noun

MOST_MISSING = 100  # objects that are named as not there: the head of an inventory stays small
APPLIED = (Verb.CREATE, Verb.UPDATE, Verb.ADOPT)


class Hold(Protocol):
    """A condition that may keep a step waiting when its turn comes, and says why it is not done then."""

    def concerns(self, step: Step) -> bool: ...

    async def __call__(self, step: Step) -> str: ...


async def apply(
    client: Client,
    plan: Plan,
    stored: StoredInventory,
    *,
    on_result: Callable[[StepResult], None] | None = None,
    delete_seconds: float = 60.0,
    hold: Hold | None = None,
    account: str = "",
) -> StepOutcome:
    """Apply the plan under the stack's Lease; raise StalePlanError when `stored` is no longer what it was made from.

    What depends on a step that `hold` keeps from being done is not done either. Every step is done in the name of
    `account`, if one is given.
    """
    await verify(client, stored)
    stored = await save(client, stored, _with_intents(plan))
    execution = Execution(client, plan.stack, delete_seconds=delete_seconds)
    steps = {step.key: step for step in plan.steps}
    results = {step.key: _unsent_result(step) for step in plan.steps if step.verb not in (*APPLIED, Verb.DELETE)}
    tell = on_result or (lambda result: None)
    for result in results.values():
        tell(result)

    async def wait(key: Key) -> StepResult | None:
        reason = await hold(steps[key]) if hold else ""
        if not reason:
            return None
        result = StepResult(steps[key], StepState.SKIPPED, reason=reason)
        tell(result)
        return result

    delayed = {step.key for step in plan.having(*APPLIED) if hold.concerns(step)} if hold else set()

    async def do(key: Key) -> StepResult:
        result_before = results.get(key)
        if result_before is not None:
            return result_before
        result = await execution.run(steps[key])
        tell(result)
        return result

    def skip(key: Key, cause: Key) -> StepResult:
        result_before = results.get(key)
        if result_before is not None:
            return result_before
        result = StepResult(steps[key], StepState.SKIPPED, reason=f"{cause} comes before it and was not done")
        tell(result)
        return result

    async def carry_out(before: dict[Key, set[Key]]) -> None:
        with impersonate(account):
            done_results = await run_in_order(
                before,
                do,
                skip,
                succeeded=_is_ok,
                rank=order.rank,
                workers=client.concurrency,
                hold=wait,
                delayed=delayed,
            )
        results.update(done_results)

    await carry_out(order.order_changes(plan.steps))
    unfinished = sum(not result.ok for result in results.values())
    if not unfinished:
        await carry_out(order.order_deletes(plan.steps))
    for step in plan.steps:
        if step.key not in results:
            results[step.key] = _held_back_result(step, unfinished)
            tell(results[step.key])
    ordered = tuple(results[step.key] for step in plan.steps)
    return StepOutcome(ordered, await save(client, stored, inventory_after(plan, ordered)))


def _with_intents(plan: Plan) -> Inventory:
    """Record intents before anything is made: an entry without UID for all that will be; it claims only what we apply.

    A stack that is taken over is so from here on, however this ends: its former owner is refused.
    """
    intents = [step.entry._replace(uid="") for step in plan.having(Verb.CREATE, Verb.ADOPT) if step.entry is not None]
    if not intents and not plan.taken_from:
        return plan.inventory
    owned = replace(plan.inventory, repository=plan.owner)
    return owned.with_entries(intents, revision=(plan.revision or None) if intents else None)


def inventory_after(plan: Plan, results: Sequence[StepResult]) -> Inventory:
    """Return what the stack owns after these results. Pure."""
    before = plan.inventory.by_key()
    entries: dict[Key, Entry] = dict(before)
    changed = False
    for result in results:
        step = result.step
        entry = _entry_after(before.get(step.key), result)
        if entry is None:
            entries.pop(step.key, None)
        else:
            entries[step.key] = entry
        changed = changed or entry != before.get(step.key)
    revision = plan.revision if plan.revision and changed else plan.inventory.revision
    ordered = tuple(entries[key] for key in sorted(entries))
    after = replace(plan.inventory, cluster=plan.cluster, revision=revision, entries=ordered, repository=plan.owner)
    return replace(after, missing=_missing(plan.inventory.missing, results, entries))


def _missing(before: Collection[Key], results: Iterable[StepResult], entries: Collection[Key]) -> tuple[Key, ...]:
    """Return what was to be created and is missing, also of a sync before, of which this one left a part out.

    A stack that has nothing in the cluster has no inventory, and so nothing of it is missing.
    """
    keys = {
        result.step.key
        for result in results
        if (result.step.verb is Verb.CREATE and result.state not in (StepState.DONE, StepState.CONFLICT))
        or (result.step.verb is Verb.UNCHANGED and result.step.key in before)
    }
    return tuple(sorted(keys - set(entries))[:MOST_MISSING]) if entries else ()


def _entry_after(entry: Entry | None, result: StepResult) -> Entry | None:
    step = result.step
    if step.verb is Verb.FORGET:
        return None
    if step.verb is Verb.DELETE:
        return None if result.state is StepState.DONE else entry
    if step.verb in (Verb.UNCHANGED, Verb.RECORD):
        return step.entry
    if result.uid and step.entry is not None:
        return step.entry._replace(uid=result.uid, seen=result.version)
    if step.verb in (Verb.CREATE, Verb.ADOPT) and not result.certain and step.entry is not None:
        return step.entry._replace(uid="")  # it may be there: the intent stays until the object is read
    return None if step.verb is Verb.CREATE else entry


def _unsent_result(step: Step) -> StepResult:
    """Return the result of a step that sends nothing."""
    if step.verb is Verb.CONFLICT:
        return StepResult(step, StepState.CONFLICT, reason=step.reason)
    return StepResult(
        step, StepState.DONE if step.verb in (Verb.FORGET, Verb.RECORD) else StepState.UNCHANGED, uid=step.uid or ""
    )


def _is_ok(result: StepResult) -> bool:
    return result.ok


def _held_back_result(step: Step, failures: int) -> StepResult:
    return StepResult(
        step, StepState.SKIPPED, reason=f"nothing is deleted before {count_noun(failures, 'other step')} could be done"
    )
