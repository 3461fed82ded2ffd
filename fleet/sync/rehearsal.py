"""Plans with what each server has against them in a dry run: reads and dry runs only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.errors import FleetError
from fleet.kube.acting import acting_as
from fleet.kube.client import Client
from fleet.model.desired import Key
from fleet.plan import Plan
from fleet.sync.outcome import Result


@dataclass(frozen=True, slots=True)
class Rehearsed:
    results: tuple[Result, ...]
    remarks: tuple[str, ...] = ()


async def rehearsed(client: Client, results: Sequence[Result], accounts: Mapping[str, str]) -> Rehearsed:
    """Of one cluster. What the server refuses in a dry run is said at the object, and is a problem of its stack."""
    from fleet.kube.rehearse import rehearse  # noqa: PLC0415 - brings aiohttp, which looking does not need

    done: list[Result] = []
    untried = 0
    for one in results:
        if one.plan is None or one.problem:
            done.append(one)
            continue
        try:
            with acting_as(accounts.get(one.stack, "")):
                found = await rehearse(client, one.plan)
        except FleetError as problem:
            done.append(replace(one, problem=problem))
            continue
        untried += len(found.forbidden)
        done.append(replace(one, plan=_with(one.plan, found.objections)) if found.objections else one)
    word = "change is" if untried == 1 else "changes are"
    remark = f"{client.cluster}: {untried} {word} not tried in a dry run: no right to"
    return Rehearsed(tuple(done), (remark,) if untried else ())


def _with(plan: Plan, objections: Mapping[Key, str]) -> Plan:
    steps = tuple(
        step._replace(objection=objections[step.key]) if step.key in objections else step for step in plan.steps
    )
    return replace(plan, steps=steps)
