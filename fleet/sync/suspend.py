"""Suspend a stack and let it go on: a word in its inventory, written under its Lease, so that no sync is half-way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from fleet.kube.client import Client
from fleet.kube.inventory import load, save
from fleet.kube.lease import Lease
from fleet.kube.person import person
from fleet.plan import Claim
from fleet.plan.suspension import Suspension

LEASE_SECONDS = 120.0  # how long to wait for a sync that is under way


def word(reason: str, *, everywhere: bool) -> Suspension:
    """Said by whoever runs this, now."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Suspension(at, person(), " ".join(reason.split()), everywhere)


async def suspend(
    client: Client, stack: str, said: Suspension | None, claim: Claim, *, placed: Collection[str] = ()
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
