"""Hooks of a sync by a user at a terminal or in CI: approvals, rollouts, suspensions, the user's confirmation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fleet.errors import FleetError
from fleet.evaluate.result import Evaluation
from fleet.git.status import choose_remote, read_status
from fleet.git.status_records import StatusRecord
from fleet.plan.inventory import Suspension
from fleet.sync.options import SyncHooks, connect
from fleet.sync.result import ApprovalCheck
from fleet.sync.rollout.approvals import Approvals, read_approvals
from fleet.sync.rollout.order import RolloutContext, unchanged_stacks, watched_stacks
from fleet.sync.run import Run
from fleet.sync.source import Checkout
from fleet.sync.suspension import SuspensionLookup, suspensions_elsewhere
from fleet.sync.targets import ClusterTarget
from fleet.times import seconds

ReadSuspensions = Callable[[Sequence[str]], Awaitable[Mapping[str, Suspension]]]


class UserHooks(SyncHooks):
    """Hooks of a command. `confirm` looks at the plans; `suspensions` reads clusters that the run is not about."""

    def __init__(
        self,
        confirm: Callable[[Run], None],
        *,
        approval: ApprovalCheck | None = None,
        rollout: RolloutContext | None = None,
        suspensions: ReadSuspensions | None = None,
    ) -> None:
        self.approval, self.rollout = approval, rollout
        self._confirm, self._suspensions = confirm, suspensions

    async def read_suspensions(self, stacks: Sequence[str]) -> Mapping[str, Suspension]:
        if self._suspensions is None:
            return await super().read_suspensions(stacks)
        return await self._suspensions(stacks)

    def confirm(self, planned: Run) -> None:
        self._confirm(planned)


def make_rollout_context(
    files: Checkout, chosen: Evaluation, selected: Sequence[ClusterTarget], *, wait: bool, read_records: bool
) -> RolloutContext:
    """Return the order of the run. Git is read only for what stacks need, with `read_records` the status branch too."""
    settings, git = files.repository.settings.git, files.git
    assert git is not None  # noqa: S101 - commits come from git

    def approvals() -> Approvals:
        return read_approvals(git, choose_remote(files.remotes, settings.remote))

    records: dict[tuple[str, str], StatusRecord] = {}
    gating = watched_stacks(chosen.stacks)
    pulling = {cluster.name for cluster in chosen.clusters if cluster.pull}
    pulled = [
        (stack.name, cluster)
        for stack in chosen.stacks
        if stack.name in gating
        for cluster in stack.clusters
        if cluster in pulling
    ]
    if read_records and (pulled or any(seconds(stack.rollout.soak) for stack in chosen.stacks)):
        with suppress(FleetError):  # then what is healthy counts as so from now on, and agents as not heard of
            remote = choose_remote(files.remotes, settings.remote)
            status = read_status(git, remote=remote, branch=settings.status_branch)
            records = {(record.stack, record.cluster): record for record in status.records}
    elsewhere = {}
    if pulled:
        from fleet.bundle.publish import read_agent_states

        elsewhere = read_agent_states(files, pulled, records)
    return RolloutContext(
        {stack.name: stack for stack in chosen.stacks},
        wait=wait,
        approvals=approvals,
        bystanders=unchanged_stacks(chosen, selected),
        told=records,
        elsewhere=elsewhere,
    )


def make_suspension_reader(
    chosen: Evaluation, names: Collection[str], kubeconfig: Path | None
) -> Callable[[Sequence[str]], Awaitable[Mapping[str, Suspension]]]:
    """Return a function that reads suspensions which hold everywhere from clusters that the run is not about."""
    return lambda stacks: SuspensionLookup().everywhere(
        suspensions_elsewhere((stack for stack in chosen.stacks if stack.name in stacks), chosen.clusters, names),
        lambda cluster: connect(cluster, kubeconfig),
    )
