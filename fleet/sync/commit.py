"""A commit on its way from its files to the clusters: the entry of `fleet sync`, `preview`, `diff` and `approve`.

`sync_commit` evaluates a commit, plans all clusters, has the plans confirmed, applies them in the order of the
rollouts, waits for health and writes that into git. `plan_commit` ends with the plans. What a user asks for is data
(`CommitOptions`), what fleet.toml says is added to it here, and what a caller adds is one object (`CommitHooks`).

This module loads little. What comes after the evaluation is loaded while the processes that evaluate start, and the
clusters are read while they evaluate (`fleet.sync.early`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.sync.source import Checkout, Commit, check_branch, check_signature, evaluate_checkout, select_clusters

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.evaluate.evaluation import OnClusters
    from fleet.evaluate.result import ClusterData, Evaluation
    from fleet.git.status_records import StatusRecord
    from fleet.kube.client.client import Client
    from fleet.objects.desired import StackCluster
    from fleet.plan.selection import Selection
    from fleet.sync.early import EarlyReads, LoopThread
    from fleet.sync.options import SyncOptions
    from fleet.sync.progress import Progress
    from fleet.sync.result import PlanApproval, Result
    from fleet.sync.rollout.gates import RolloutState
    from fleet.sync.run import Run
    from fleet.sync.targets import ClusterTarget


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What a user asks of a run, as plain data."""

    kubeconfig: Path | None = None
    stacks: Sequence[str] = ()  # all if empty
    clusters: Sequence[str] = ()  # all if empty
    only: Sequence[str] = ()  # patterns of objects that are changed; all if empty
    exclude: Sequence[str] = ()  # patterns of objects that are left as they are
    take_over: Sequence[str] = ()  # repositories whose stacks are taken over
    renamed_from: Sequence[str] = ()  # former names of clusters
    allow_deletes: int | None = None  # in the place of the budget of fleet.toml
    wait: bool = True
    timeout: float = 600.0  # seconds
    dry_run: bool = False  # the API servers try every change, and nothing is written
    rollout: bool = True  # clusters change in the order of the stacks' rollouts
    status: bool = True  # the status branch is read and written
    require_approved: bool = False  # whatever fleet.toml says
    any_branch: bool = False  # a commit of another branch than the synced one may be applied
    allow_earlier: bool = False  # the commit may be an ancestor of what was applied
    allow_rewritten: bool = False  # the commit need not descend from what was applied
    signers: Path | None = None  # the file of those one of whom must have signed the commit


class CommitHooks:
    """What the caller of a run adds to it. As it is, a run shows nothing and asks nobody."""

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        """Return a client of the cluster; raise an error where the caller has no way to it."""
        from fleet.sync.options import connect  # noqa: PLC0415 - not before it is needed, as in all of this module

        return connect(cluster, options.kubeconfig)

    def show_progress(self) -> AbstractContextManager[Progress]:
        """Return a context in which the progress of the run is shown."""
        from fleet.sync.progress import NoProgress  # noqa: PLC0415

        return nullcontext(NoProgress())

    def tell(self, remark: str) -> None:
        """Tell the user something about the run that is no result of it."""

    def make_approval_check(self, commit: Commit, evaluation: Evaluation) -> PlanApproval | None:
        """Return what judges whether the plans were approved; `evaluation` is of all stacks."""
        return None

    def read_agent_states(
        self, commit: Commit, placements: Collection[StackCluster], records: Mapping[StackCluster, StatusRecord]
    ) -> Mapping[StackCluster, RolloutState]:
        """Return how stacks stand in clusters that only their agents reach."""
        return {}

    def show_plan(self, planned: Run, evaluation: Evaluation) -> None:
        """Show the plans, before they are checked."""

    def confirm(self, planned: Run) -> None:
        """Raise an error to prevent the first write."""


NO_HOOKS = CommitHooks()


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The run of a commit and what it was of."""

    run: Run
    evaluation: Evaluation
    status_error: FleetError | None = None  # why the run could not be written into git


def run_options(checkout: Checkout, options: CommitOptions) -> SyncOptions:
    """Return the options of a run over clusters: those of the user, with what the repository's fleet.toml says."""
    from fleet.plan.budget import DeletionBudget  # noqa: PLC0415
    from fleet.plan.ownership import RepositoryOwnership  # noqa: PLC0415
    from fleet.sync.options import SyncOptions  # noqa: PLC0415

    settings = checkout.repository.settings
    return SyncOptions(
        options.kubeconfig,
        wait=options.wait,
        timeout=options.timeout,
        budget=DeletionBudget(settings.budget.deletions, settings.budget.share)
        if options.allow_deletes is None
        else DeletionBudget.override(options.allow_deletes),
        claim=RepositoryOwnership(checkout.identity, frozenset(options.take_over), frozenset(options.renamed_from)),
        accounts=settings.trust.account,
        dry_run=options.dry_run,
    )


def plan_commit(checkout: Checkout, options: CommitOptions, hooks: CommitHooks = NO_HOOKS) -> CommitRun:
    """Evaluate a commit or a working tree, and plan all clusters. Nothing is written to any of them."""
    with _evaluate_and_read(checkout, options, hooks, options.stacks) as (evaluation, thread, early):
        from fleet.sync.run import plan_fleet  # noqa: PLC0415

        targets = _choose_targets(evaluation, options)
        with hooks.show_progress() as progress:
            work = plan_fleet(targets, early.options, progress, early.hooks, revision=checkout.revision, early=early)
            return CommitRun(thread.run(work), evaluation)


def sync_commit(commit: Commit, options: CommitOptions, hooks: CommitHooks = NO_HOOKS) -> CommitRun:
    """Make all clusters what the commit says, and write their health into git.

    Raise an error before the first write if the commit is of another branch or not signed, if the run would take away
    more than it may, and if `hooks.confirm` raises one. What goes wrong with a single stack is in the results.
    """
    for remark in check_branch(commit, any_branch=options.any_branch):
        hooks.tell(remark)
    if options.signers:
        check_signature(commit.git, commit.revision, options.signers)
    if options.status:
        from fleet.sync.report import check_destination  # noqa: PLC0415

        check_destination(commit)
    approvals = options.require_approved or commit.repository.settings.approval.required
    named = () if approvals else options.stacks
    with _evaluate_and_read(commit, options, hooks, named) as (everything, thread, early):
        from fleet.sync.run import plan_fleet, sync_fleet  # noqa: PLC0415
        from fleet.sync.run_hooks import CommitRunHooks, EvaluatedRun  # noqa: PLC0415

        evaluation = select_clusters(everything, options.stacks)
        targets = _choose_targets(evaluation, options)
        evaluated = EvaluatedRun(commit, options, evaluation, targets, _selection(options))
        run_hooks = CommitRunHooks(hooks, evaluated, everything, early.options)
        with hooks.show_progress() as progress:
            arguments = (targets, early.options, progress, run_hooks)
            if options.dry_run:
                trial = thread.run(plan_fleet(*arguments, revision=commit.revision, early=early))
                return CommitRun(run_hooks.confirm_trial(trial), evaluation)
            run = thread.run(sync_fleet(*arguments, revision=commit.revision, early=early))
    return CommitRun(run, evaluation, _publish(commit, options, hooks, run, targets) if options.status else None)


@contextmanager
def _evaluate_and_read(
    checkout: Checkout, options: CommitOptions, hooks: CommitHooks, stacks: Sequence[str]
) -> Iterator[tuple[Evaluation, LoopThread, EarlyReads]]:
    """Yield the evaluation of these stacks, and the loop of the run with what is read of the clusters meanwhile."""
    with ExitStack() as stack:
        started: list[tuple[LoopThread, EarlyReads]] = []

        def start() -> OnClusters:
            from fleet.sync.early import EarlyReads, LoopThread  # noqa: PLC0415
            from fleet.sync.run_hooks import ReadingHooks  # noqa: PLC0415

            thread = stack.enter_context(LoopThread.start())
            reading = (run_options(checkout, options), ReadingHooks(hooks))
            early = EarlyReads(thread.loop, *reading, options.stacks, options.clusters)
            started.append((thread, early))
            return early.begin

        evaluation = evaluate_checkout(checkout, stacks, start)
        yield evaluation, *started[0]


def _selection(options: CommitOptions) -> Selection:
    from fleet.plan.selection import Selection  # noqa: PLC0415

    return Selection(tuple(options.only), tuple(options.exclude))


def _choose_targets(evaluation: Evaluation, options: CommitOptions) -> tuple[ClusterTarget, ...]:
    from fleet.sync.targets import choose_targets  # noqa: PLC0415

    return choose_targets(evaluation, options.stacks, options.clusters, _selection(options))


def _publish(
    commit: Commit, options: CommitOptions, hooks: CommitHooks, run: Run, targets: Sequence[ClusterTarget]
) -> FleetError | None:
    """Write health into git; return the error if that fails: the clusters are changed, so the caller raises it last."""
    from fleet.errors import FleetError  # noqa: PLC0415
    from fleet.sync.report import observed_results, publish_status, removed_placements  # noqa: PLC0415

    if options.only or options.exclude:
        hooks.tell("health was not written into git: only a part of the commit was applied")
        return None
    by_account = bool(commit.repository.settings.trust.account)
    results = observed_results(run.results, run.looked_at, by_account=by_account)
    if unseen := _describe_unseen(run.results, results):
        hooks.tell(f"not written into git, since it could not be looked at from here: {unseen}")
    try:
        if options.clusters:
            publish_status(commit, results)
        else:
            publish_status(commit, results, gone=removed_placements(targets))
    except FleetError as error:
        error.message = f"health was not written into git: {error.message}"
        error.hint = error.hint or "--no-status leaves it out"
        return error
    return None


def _describe_unseen(results: Sequence[Result], observed: Sequence[Result]) -> str:
    """Return the placements that the run could not observe; "" if there are none."""
    placements = {(result.stack, result.cluster) for result in observed}
    unseen = [
        f"{result.stack} on {result.cluster}" for result in results if (result.stack, result.cluster) not in placements
    ]
    return ", ".join(unseen[:5]) + (f" and {len(unseen) - 5} more" if len(unseen) > 5 else "")
