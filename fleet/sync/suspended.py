"""Whether somebody suspended a stack for everywhere, as clusters say that a run does not look at.

The word is in the inventory of every cluster that could be reached when it was given. One that joined later, or was
silent then, does not have it; so before something is written the others are asked, each time. One that does not answer
is taken at its last word: what nobody ever read holds nobody back, or one cluster that is down for days would hold all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from fleet.errors import FleetError
from fleet.evaluate.result import ClusterData, StackResult
from fleet.kube.client import Client
from fleet.kube.inventory import suspension_of
from fleet.model.desired import StackCluster
from fleet.plan.suspension import Suspension

Reach = Callable[[ClusterData], AbstractAsyncContextManager[Client]]
SECONDS = 2.0  # that a cluster may take to answer


def besides(
    stacks: Iterable[StackResult], clusters: Iterable[ClusterData], here: Collection[str]
) -> dict[str, list[ClusterData]]:
    """Where else the stacks are placed, of the clusters that are reached and not looked at already."""
    others = {one.name: one for one in clusters if one.name not in here and not one.pull}
    return {one.name: [others[name] for name in one.clusters if name in others] for one in stacks}


@dataclass(slots=True)
class Words:
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
                    self._last[pair] = await suspension_of(client, stack)
        return self._last.get(pair)
