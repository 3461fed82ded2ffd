"""Which stacks are left as they are in this run, because somebody suspended them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.model.desired import StackCluster
from fleet.plan import Plan, Verb
from fleet.plan.suspension import Suspension
from fleet.sync.look import Look
from fleet.sync.outcome import Result

NOWHERE: Mapping[str, Suspension] = {}


def suspensions(
    looks: Mapping[str, Look], elsewhere: Mapping[str, Suspension] = NOWHERE
) -> dict[StackCluster, Suspension]:
    """By stack and cluster. A word that is meant for everywhere holds where it could not be written, too.

    `elsewhere` are such words that were found in clusters which are not looked at now.
    """
    words = {
        (seen.stack, cluster): seen.plan.inventory.suspension
        for cluster, look in looks.items()
        for seen in look.seen
        if seen.plan and seen.plan.inventory.suspension
    }
    everywhere = {**elsewhere, **{stack: word for (stack, _), word in words.items() if word.everywhere}}
    places = ((seen.stack, cluster) for cluster, look in looks.items() for seen in look.seen)
    found = {pair: words.get(pair) or everywhere.get(pair[0]) for pair in places}
    return {pair: word for pair, word in found.items() if word}


def held(results: Iterable[Result], words: Mapping[StackCluster, Suspension]) -> list[Result]:
    """The results, those of suspended stacks without a plan: nothing is to be done there."""
    return [_held(one, words.get((one.stack, one.cluster))) for one in results]


def _held(result: Result, word: Suspension | None) -> Result:
    if word is None or result.problem:
        return result
    waiting = _waiting(result.plan) if result.plan else 0
    more = f"; {waiting} change{'s wait' if waiting > 1 else ' waits'}" if waiting else ""
    return replace(result, plan=None, suspended=f"{word}{more}", held_back=waiting)


def _waiting(plan: Plan) -> int:
    return sum(step.verb is not Verb.UNCHANGED for step in plan.steps)
