"""Two fleets that claim one object: who they are, by what the inventories of the cluster say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleet.plan.inventory import Inventory
from fleet.plan.step import Plan, Step, Verb


def named(plan: Plan, inventories: Iterable[Inventory]) -> Plan:
    """The plan, its conflicts with other stacks told with both names."""
    if not any(_is_rivalry(step) for step in plan.steps):
        return plan
    owners = {
        (entry.key, entry.uid): inventory
        for inventory in inventories
        if inventory.stack != plan.stack
        for entry in inventory.entries
    }
    steps = tuple(_told(step, owners.get((step.key, step.uid or "")), plan) for step in plan.steps)
    return replace(plan, steps=steps)


def recalled(plan: Plan, shown: Plan) -> Plan:
    """The plan made again under the Lease, with what was found out about the same conflicts before."""
    known = {step.key: step for step in shown.steps if _is_rivalry(step)}
    steps = (
        step._replace(reason=known[step.key].reason) if _is_rivalry(step) and step.key in known else step
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps)) if known else plan


def _is_rivalry(step: Step) -> bool:
    return step.verb is Verb.CONFLICT and not step.refused


def _told(step: Step, owner: Inventory | None, plan: Plan) -> Step:
    if owner is None or not _is_rivalry(step):
        return step
    theirs, ours = (f" of the fleet {name}" if name else "" for name in (owner.repository, plan.owner))
    reason = f"belongs to stack {owner.stack}{theirs}, and stack {plan.stack}{ours} wants it too; it was not touched"
    return step._replace(reason=reason)
