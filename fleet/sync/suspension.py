"""Suspension of stacks: suspend and resume them, and find out which ones a run leaves as they are.

A suspension is an entry in the inventory, written under the Lease, so that no sync is half-way when it begins.

A suspension for everywhere is written into the inventory of every cluster that can be reached at that time. A cluster
that joins later, or did not answer, does not have it. So before a sync writes, it asks the other clusters of the stack,
each time. A cluster that does not answer counts with its last answer. A suspension that was never read keeps no sync
back: otherwise one cluster that is down for days would stop all others.
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
    """Return the suspensions by stack and cluster, from the inventories that the run has read.

    A suspension for everywhere holds also in a cluster where it could not be written. `elsewhere` has those that were
    found in clusters which this run does not read.
    """
    suspensions = {
        (seen.stack, cluster): seen.plan.inventory.suspension
        for cluster, plan in looks.items()
        for seen in plan.seen
        if seen.plan and seen.plan.inventory.suspension
    }
    everywhere = {
        **elsewhere,
        **{stack: suspension for (stack, _), suspension in suspensions.items() if suspension.everywhere},
    }
    placements = ((seen.stack, cluster) for cluster, plan in looks.items() for seen in plan.seen)
    effective = {placement: suspensions.get(placement) or everywhere.get(placement[0]) for placement in placements}
    return {placement: suspension for placement, suspension in effective.items() if suspension}


def mark_suspended(results: Iterable[Result], suspensions: Mapping[StackCluster, Suspension]) -> list[Result]:
    """Return the results; those of suspended stacks have no plan, so that nothing is done there."""
    return [_mark_result(result, suspensions.get((result.stack, result.cluster))) for result in results]


def _mark_result(result: Result, suspension: Suspension | None) -> Result:
    """Return the result without its plan if the stack is suspended and has no other problem."""
    if suspension is None or result.problem:
        return result
    changes = _count_changes(result.plan) if result.plan else 0
    more = f"; {changes} change{'s wait' if changes > 1 else ' waits'}" if changes else ""
    return replace(result, plan=None, suspended=f"{suspension}{more}", held_back=changes)


def _count_changes(plan: Plan) -> int:
    """Return the number of steps that change something."""
    return sum(step.verb is not Verb.UNCHANGED for step in plan.steps)


Reach = Callable[[ClusterData], AbstractAsyncContextManager[Client]]
SECONDS = 2.0  # within which a cluster has to answer


def suspensions_elsewhere(
    stacks: Iterable[StackResult], clusters: Iterable[ClusterData], clusters_read: Collection[str]
) -> dict[str, list[ClusterData]]:
    """Return for each stack the clusters that it is placed in, that are reached and that were not read already."""
    other = {cluster.name: cluster for cluster in clusters if cluster.name not in clusters_read and not cluster.pull}
    return {stack.name: [other[name] for name in stack.clusters if name in other] for stack in stacks}


@dataclass(slots=True)
class SuspensionLookup:
    """Lookup of suspensions in clusters that a run does not read, with the last answer of each cluster."""

    is_silent: Callable[[str], bool] = lambda cluster: False  # whether the cluster did not answer when it was last read
    _last: dict[StackCluster, Suspension | None] = field(default_factory=dict)

    async def everywhere(self, placed: Mapping[str, Iterable[ClusterData]], reach: Reach) -> dict[str, Suspension]:
        """Return the suspensions for everywhere, by stack; `placed` are the clusters to ask about each."""
        questions = [(name, cluster) for name, clusters in placed.items() for cluster in clusters]
        reads = (self._read_suspension(name, cluster, reach) for name, cluster in questions)
        suspensions = await asyncio.gather(*reads)
        answers = zip((name for name, _ in questions), suspensions, strict=True)
        return {name: suspension for name, suspension in answers if suspension is not None and suspension.everywhere}

    async def _read_suspension(self, stack: str, cluster: ClusterData, reach: Reach) -> Suspension | None:
        """Return the suspension in that cluster, or its last known answer if it is silent."""
        pair = (stack, cluster.name)
        if not self.is_silent(cluster.name):
            with contextlib.suppress(FleetError, TimeoutError):
                async with asyncio.timeout(SECONDS), reach(cluster) as client:
                    self._last[pair] = await read_suspension(client, stack)
        return self._last.get(pair)


LEASE_SECONDS = 120.0  # how long to wait for a sync that is under way


def suspension_text(reason: str, *, everywhere: bool) -> Suspension:
    """Return a suspension by the user who runs this, as of now."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Suspension(at, person_name(), " ".join(reason.split()), everywhere)


async def suspend(
    client: Client,
    stack: str,
    suspension: Suspension | None,
    claim: RepositoryOwnership,
    *,
    placed: Collection[str] = (),
) -> bool:
    """Write the suspension, or remove it if `suspension` is None.

    Return False where the cluster has nothing of the stack, nor will have.

    `placed` are the clusters that git places the stack in: there the suspension is written before anything else is.
    """
    stored = await load(client, stack, client.cluster)
    if not stored.chunks and (suspension is None or client.cluster not in placed):
        return False
    async with Lease(client, stack, wait=LEASE_SECONDS):
        stored = await load(client, stack, client.cluster)
        claim.check(stored.inventory, client.cluster)
        owned_inventory = replace(stored.inventory, repository=stored.inventory.repository or claim.repository)
        if stored.inventory.suspension != suspension:
            await save(client, stored, replace(owned_inventory, suspension=suspension))
    return True
