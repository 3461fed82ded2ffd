"""Suspend, resume, and what is suspended.

Which stacks are left as they are in this run, because somebody suspended them. Pure.

Whether somebody suspended a stack for everywhere, as clusters say that a run does not look at.

The word is in the inventory of every cluster that could be reached when it was given. One that joined later, or was
silent then, does not have it; so before something is written the others are asked, each time. One that does not answer
is taken at its last word: what nobody ever read holds nobody back, or one cluster that is down for days would hold all.

Suspend a stack and let it go on: a word in its inventory, written under its Lease, so that no sync is half-way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fleet.apply.inventory import load, read_suspension, save
from fleet.errors import FleetError
from fleet.evaluate.result import ClusterData, StackResult
from fleet.kube.client.client import Client
from fleet.kube.identity import person_name
from fleet.kube.lease import Lease
from fleet.objects.desired import StackCluster
from fleet.plan import Plan, RepositoryOwnership, Verb
from fleet.plan.inventory import Suspension
from fleet.sync.planning import ClusterPlan
from fleet.sync.result import Result

NOWHERE: Mapping[str, Suspension] = {}


def read_suspensions(
    looks: Mapping[str, ClusterPlan], elsewhere: Mapping[str, Suspension] = NOWHERE
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


def mark_suspended(results: Iterable[Result], words: Mapping[StackCluster, Suspension]) -> list[Result]:
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


Reach = Callable[[ClusterData], AbstractAsyncContextManager[Client]]
SECONDS = 2.0  # that a cluster may take to answer


def suspensions_elsewhere(
    stacks: Iterable[StackResult], clusters: Iterable[ClusterData], here: Collection[str]
) -> dict[str, list[ClusterData]]:
    """Where else the stacks are placed, of the clusters that are reached and not looked at already."""
    others = {one.name: one for one in clusters if one.name not in here and not one.pull}
    return {one.name: [others[name] for name in one.clusters if name in others] for one in stacks}


@dataclass(slots=True)
class SuspensionLookup:
    is_silent: Callable[[str], bool] = lambda cluster: False  # the cluster did not answer when it was last looked at
    _last: dict[StackCluster, Suspension | None] = field(default_factory=dict)

    async def everywhere(self, placed: Mapping[str, Iterable[ClusterData]], reach: Reach) -> dict[str, Suspension]:
        """By stack; `placed` are the clusters to ask about each."""
        asked = [(name, cluster) for name, clusters in placed.items() for cluster in clusters]
        words = await asyncio.gather(*(self._word(name, one, reach) for name, one in asked))
        found = zip((name for name, _ in asked), words, strict=True)
        return {name: word for name, word in found if word is not None and word.everywhere}

    async def _word(self, stack: str, cluster: ClusterData, reach: Reach) -> Suspension | None:
        pair = (stack, cluster.name)
        if not self.is_silent(cluster.name):
            with contextlib.suppress(FleetError, TimeoutError):
                async with asyncio.timeout(SECONDS), reach(cluster) as client:
                    self._last[pair] = await read_suspension(client, stack)
        return self._last.get(pair)


LEASE_SECONDS = 120.0  # how long to wait for a sync that is under way


def suspension_text(reason: str, *, everywhere: bool) -> Suspension:
    """Said by whoever runs this, now."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Suspension(at, person_name(), " ".join(reason.split()), everywhere)


async def suspend(
    client: Client, stack: str, said: Suspension | None, claim: RepositoryOwnership, *, placed: Collection[str] = ()
) -> bool:
    """Write it, or with None take it away. False where the cluster has nothing of the stack, nor will have.

    `placed` are the clusters that the stack is meant for: there the word is written before anything else is.
    """
    stored = await load(client, stack, client.cluster)
    if not stored.chunks and (said is None or client.cluster not in placed):
        return False
    async with Lease(client, stack, wait=LEASE_SECONDS):
        stored = await load(client, stack, client.cluster)
        claim.check(stored.inventory, client.cluster)
        named = replace(stored.inventory, repository=stored.inventory.repository or claim.repository)
        if stored.inventory.suspension != said:
            await save(client, stored, replace(named, suspension=said))
    return True
