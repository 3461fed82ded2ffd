"""Options of a run, as data, and the hooks by which its caller takes part in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError, FleetError
from fleet.evaluate.result import ClusterData
from fleet.kube.client.client import Client
from fleet.plan import Plan
from fleet.plan.budget import DeletionBudget, check_budget
from fleet.plan.inventory import Suspension
from fleet.plan.ownership import RepositoryOwnership
from fleet.sync.result import PlanApproval, Result
from fleet.sync.rollout.order import RolloutContext
from fleet.sync.suspension import NOWHERE

if TYPE_CHECKING:
    from fleet.sync.run import Run


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """What the flags of a run say."""

    kubeconfig: Path | None = None
    wait: bool = True
    timeout: float = 600.0  # seconds for health, and for deletions to finish
    budget: DeletionBudget = field(default_factory=DeletionBudget)
    claim: RepositoryOwnership = field(default_factory=RepositoryOwnership)  # for which repository
    accounts: str = ""  # the service account of each stack, as "namespace/{stack}"; "" is the user's own identity
    dry_run: bool = False  # of a run that only plans: let the servers try every change without storing it
    lease_seconds: float = 120.0  # how long to wait for another sync of the same stack


class SyncHooks:
    """What the caller of a run adds to it. As it is, a run asks nobody; a subclass overrides what it needs."""

    approval: PlanApproval | None = None  # whether what is planned was approved
    rollout: RolloutContext | None = None  # waves, and what else keeps a change from going before another

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        """Return a client of the cluster; raise an error where the caller has no way to it."""
        return connect(cluster, options.kubeconfig)

    def check_budget(self, cluster: str, plans: Sequence[Plan], budget: DeletionBudget) -> None:
        """Raise PolicyError if the plans of one cluster take away more than they may."""
        check_budget(cluster, plans, budget)

    def find_objection(self, result: Result) -> FleetError | None:
        """Return what else speaks against the plan of a stack in a cluster."""
        return None

    async def read_suspensions(self, stacks: Sequence[str]) -> Mapping[str, Suspension]:
        """Return which of these stacks are suspended everywhere, as clusters say that the run is not about."""
        return NOWHERE

    async def judge(self, planned: list[Result]) -> list[Result]:
        """Return the results with an error where what is planned was not approved. May take its time; reads only."""
        if not any(result.is_to_do for result in planned) or self.approval is None:
            return planned
        return await asyncio.to_thread(self.approval.judge, planned)

    def confirm(self, planned: Run) -> None:
        """Look at what is planned, before the first write; raise an error to prevent it."""


def connect(cluster: ClusterData, kubeconfig: Path | None) -> Client:
    """Return a client of the cluster by its context; raise ConfigurationError if only the service can reach it."""
    if cluster.secret:
        raise ConfigurationError(
            f"{cluster.name} is reached through the Secret {cluster.secret}, which only `fleet serve` can read",
            hint="give the cluster a context to use it from here",
            source=cluster.source,
        )
    return Client.of(kubeconfig, cluster.kubeconfig_context, cluster=cluster.name)
