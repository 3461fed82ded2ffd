"""Hooks of the run of a commit: what the commit, the user's options and the caller say, as `fleet.sync.run` asks it.

Before the first write the plans are shown, the selection and the safety of the whole run are checked, and the caller
confirms. The rollout context and the suspensions are read from git and from clusters that the run is not about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property

from fleet.errors import FleetError
from fleet.evaluate.result import ClusterData, Evaluation
from fleet.git.status import choose_remote, read_status
from fleet.git.status_records import StatusRecord
from fleet.kube.client.client import Client
from fleet.objects.desired import StackCluster
from fleet.plan.inventory import Suspension
from fleet.plan.selection import Selection
from fleet.sync.commit import CommitHooks, CommitOptions
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.result import PlanApproval
from fleet.sync.rollout.approvals import Approvals, read_approvals
from fleet.sync.rollout.order import RolloutContext, unchanged_stacks, watched_stacks
from fleet.sync.run import Run
from fleet.sync.safety import check_run
from fleet.sync.source import Commit
from fleet.sync.suspension import NOWHERE, SuspensionLookup, suspensions_elsewhere
from fleet.sync.targets import ClusterTarget
from fleet.times import seconds


@dataclass(frozen=True, slots=True)
class EvaluatedRun:
    """What is known of a run once its commit is evaluated."""

    commit: Commit
    options: CommitOptions
    evaluation: Evaluation  # of the stacks that the run is about
    targets: Sequence[ClusterTarget]
    selection: Selection


class ReadingHooks(SyncHooks):
    """Hooks of a run that only reads: it reaches clusters as the caller does."""

    def __init__(self, caller: CommitHooks) -> None:
        self.caller = caller

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        return self.caller.open_client(cluster, options)


class CommitRunHooks(ReadingHooks):
    """Hooks of a run that applies a commit. `everything` is the evaluation of all stacks, if approvals need it."""

    def __init__(self, caller: CommitHooks, evaluated: EvaluatedRun, everything: Evaluation, run: SyncOptions) -> None:
        super().__init__(caller)
        self.evaluated = evaluated
        self.everything = everything
        self.run = run
        if evaluated.options.rollout and not evaluated.options.dry_run:
            self.rollout = make_rollout_context(evaluated, caller)

    @cached_property
    def approval(self) -> PlanApproval | None:  # type: ignore[override]
        """The check of approvals; made, with all that it loads, only where something is to do."""
        return self.caller.make_approval_check(self.evaluated.commit, self.everything)

    async def read_suspensions(self, stacks: Sequence[str]) -> Mapping[str, Suspension]:
        """Return the suspensions that hold everywhere, of clusters that the user left out of the run."""
        names, evaluation = self.evaluated.options.clusters, self.evaluated.evaluation
        if not names:
            return NOWHERE
        changing = (stack for stack in evaluation.stacks if stack.name in stacks)
        return await SuspensionLookup().everywhere(
            suspensions_elsewhere(changing, evaluation.clusters, names),
            lambda cluster: self.open_client(cluster, self.run),
        )

    def confirm(self, planned: Run) -> None:
        commit, options = self.evaluated.commit, self.evaluated.options
        self.caller.show_plan(planned, self.evaluated.evaluation)
        self.evaluated.selection.check(result.plan for result in planned.results if result.plan)
        self.caller.confirm(planned)
        check_run(
            commit,
            self.evaluated.evaluation,
            planned,
            self.run.budget,
            stacks=options.stacks,
            remembered=options.status,
            back=options.allow_earlier,
            rewritten=options.allow_rewritten,
        )

    def confirm_trial(self, trial: Run) -> Run:
        """Return the run of a dry run with what was not approved; raise what would prevent the first write."""
        judged = self.approval.judge(trial.results) if self.approval else trial.results
        trial = replace(trial, results=tuple(judged))
        self.confirm(trial)
        return trial


def make_rollout_context(evaluated: EvaluatedRun, caller: CommitHooks) -> RolloutContext:
    """Return the rollout context of a run. Git is read only for what stacks need, the status branch if it may be."""
    commit, options, evaluation = evaluated.commit, evaluated.options, evaluated.evaluation
    settings, git = commit.repository.settings.git, commit.git

    def approvals() -> Approvals:
        return read_approvals(git, choose_remote(commit.remotes, settings.remote))

    records: dict[StackCluster, StatusRecord] = {}
    pulled = _list_pulled(evaluation)
    if options.status and (pulled or any(seconds(stack.rollout.soak) for stack in evaluation.stacks)):
        with suppress(FleetError):  # then what is healthy counts as so from now on, and agents as not heard of
            remote = choose_remote(commit.remotes, settings.remote)
            status = read_status(git, remote=remote, branch=settings.status_branch)
            records = {(record.stack, record.cluster): record for record in status.records}
    return RolloutContext(
        {stack.name: stack for stack in evaluation.stacks},
        wait=options.wait,
        approvals=approvals,
        bystanders=unchanged_stacks(evaluation, evaluated.targets),
        status_records=records,
        elsewhere=caller.read_agent_states(commit, pulled, records) if pulled else {},
    )


def _list_pulled(evaluation: Evaluation) -> list[StackCluster]:
    """Return the placements on clusters that pull, of stacks whose state matters to changes of others."""
    watched = watched_stacks(evaluation.stacks)
    pulling = {cluster.name for cluster in evaluation.clusters if cluster.pull}
    stacks = [stack for stack in evaluation.stacks if stack.name in watched]
    return [(stack.name, cluster) for stack in stacks for cluster in stack.clusters if cluster in pulling]
