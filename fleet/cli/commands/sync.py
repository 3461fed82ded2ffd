"""`fleet sync`: make every cluster what a commit says, wait until it is healthy, and write that into git."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import (
    any_branch_option,
    ownership_options,
    selection_options,
    signers_option,
    status_option,
    wait_options,
)
from fleet.cli.output import emit_result, output_option, print_message
from fleet.cli.plans import count_changes, select_deletion_budget, view_plan
from fleet.cli.results import collect_errors, finish, format_results, results_data

if TYPE_CHECKING:
    from fleet.approval.gate import ApprovalCheck
    from fleet.errors import FleetError
    from fleet.sync.run import Run
    from fleet.sync.source import Checkout
    from fleet.sync.targets import ClusterTarget


@click.command()
@selection_options
@click.option("--revision", metavar="REV", help="The commit to apply. [default: HEAD]")
@wait_options
@ownership_options
@click.option("--expect-no-changes", is_flag=True, help="Change nothing; exit with code 7 if anything would change.")
@click.option("--show-unchanged", is_flag=True, help="Show objects that stay as they are, too.")
@click.option(
    "--require-approved", is_flag=True, help="Apply only what was recorded as approved. [default: as fleet.toml says]"
)
@click.option(
    "--target",
    "only",
    multiple=True,
    metavar="PATTERN",
    help="Change only these objects and what they need: STACK, STACK/NAME or STACK/KIND/NAME; may be repeated.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave these objects as they are, in the words of --target.",
)
@click.option("--dry-run", is_flag=True, help="Let the servers try every change, and write nothing to anybody.")
@click.option(
    "--allow-deletes",
    type=click.IntRange(min=0),
    metavar="N",
    help="Let this one sync take away up to N objects per cluster, whatever the budget says.",
)
@click.option("--ignore-rollout", is_flag=True, help="Change all clusters at once, whatever the stacks' rollouts say.")
@click.option("--allow-rewritten", is_flag=True, help="Apply a commit that does not go on from what was applied.")
@any_branch_option
@signers_option
@status_option
@output_option
def sync(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    revision: str | None,
    wait: bool,
    timeout: float,
    renamed_from: Sequence[str],
    take_over: Sequence[str],
    expect_no_changes: bool,
    show_unchanged: bool,
    require_approved: bool,
    only: Sequence[str],
    exclude: Sequence[str],
    dry_run: bool,
    allow_deletes: int | None,
    ignore_rollout: bool,
    allow_rewritten: bool,
    any_branch: bool,
    signers: Path | None,
    status: bool,
    form: str,
) -> int:
    """Apply a commit to every cluster that it is about.

    Only commits are applied; what is not committed is left out and named, and what is not pushed is named. A cluster
    that cannot be reached fails alone. Nothing is deleted that this stack did not make, nor more than the budget of
    fleet.toml allows. A stack that another repository applied is refused, and so is a commit that does not go on from
    the one that was applied, or is of another branch than the one that fleet.toml says is synced.

    Clusters are changed in the order that the stacks' rollouts and dependencies give, as by `fleet serve`: each begins
    when those before it have the commit and are healthy. What waits for something that this run does not bring about
    (a person's word, a window, a cluster that is ill) is left as it is, with exit code 5; the next sync goes on from
    there. With --no-wait only what may begin now is applied.

    With --require-approved, or where fleet.toml requires it, a cluster is changed only if everything that would be done
    there was previewed and recorded, and nothing more destructive than that; else it is left alone, with exit code 5.

    \b
    fleet sync
    fleet sync --stack orders --cluster eu-1 --timeout 30m
    fleet sync --allow-deletes 12
    """
    from fleet.cli.gc import collect_rarely
    from fleet.sync.report import check_destination
    from fleet.sync.source import check_branch, evaluate_checkout, read_commit, select_clusters

    collect_rarely()
    with read_commit(revision or "HEAD", known=True) as files:
        for line in check_branch(files, any_branch=any_branch or dry_run or expect_no_changes):
            print_message(line)
        _check_signature(files, signers)
        if status:
            check_destination(files)
        everything = require_approved or files.repository.settings.approval.required
        evaluation = evaluate_checkout(files, () if everything else stacks)

    import asyncio

    from fleet.approval.gate import ApprovalCheck
    from fleet.cli.sync_hooks import UserHooks, make_rollout_context, make_suspension_reader
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.plan.selection import Selection
    from fleet.sync.options import SyncOptions
    from fleet.sync.progress import show_progress
    from fleet.sync.rollout.describe import describe_rollouts
    from fleet.sync.run import plan_fleet, sync_fleet
    from fleet.sync.safety import check_run
    from fleet.sync.targets import choose_targets

    narrowing = Selection(tuple(only), tuple(exclude))
    chosen = select_clusters(evaluation, stacks)
    selected = choose_targets(chosen, stacks, clusters, narrowing)
    budget = select_deletion_budget(files.repository.settings, allow_deletes)
    claim = RepositoryOwnership(files.identity, frozenset(take_over), frozenset(renamed_from))
    gate = ApprovalCheck(files, evaluation, required=require_approved)
    settings = files.repository.settings
    options = SyncOptions(
        kubeconfig,
        wait=wait,
        timeout=timeout,
        budget=budget,
        claim=claim,
        accounts=settings.trust.account,
        dry_run=dry_run,
    )
    rollout = (
        None
        if ignore_rollout or dry_run
        else make_rollout_context(files, chosen, selected, wait=wait, read_records=status)
    )
    with show_progress(quiet=form != "text") as progress:

        def confirm(planned: Run) -> None:
            if form == "text":
                progress.say(view_plan([result.branch for result in planned.results], "text", unchanged=show_unchanged))
                for line in describe_rollouts(chosen.stacks, planned.results):
                    print_message(line + (": ignored, as --ignore-rollout says" if ignore_rollout else ""))
            narrowing.check(result.plan for result in planned.results if result.plan)
            if expect_no_changes:
                finish(collect_errors(planned.results), count_changes(planned))
            check_run(
                files,
                chosen,
                planned,
                budget,
                stacks=stacks,
                remembered=status,
                back=revision is not None,
                rewritten=allow_rewritten,
            )

        if dry_run:
            trial = asyncio.run(plan_fleet(selected, options, progress, revision=files.revision))
            return _finish_trial(trial, files, form, gate, confirm)
        suspensions = make_suspension_reader(chosen, clusters, kubeconfig) if clusters else None
        hooks = UserHooks(confirm, approval=gate, rollout=rollout, suspensions=suspensions)
        run = asyncio.run(sync_fleet(selected, options, progress, hooks, revision=files.revision))
    errors = collect_errors(run.results) + [result.unhealthy for result in run.results if result.unhealthy]
    status_error = _publish(files, run, selected, narrowed=bool(clusters), part=bool(narrowing)) if status else None
    emit_result({"revision": files.revision, **results_data(run.results)}, form, lambda: format_results(run.results))
    for line in run.remarks:
        print_message(line)
    return finish([*errors, *([status_error] if status_error else [])])


def _finish_trial(run: Run, files: Checkout, form: str, gate: ApprovalCheck, confirm: Callable[[Run], None]) -> int:
    """Print what a dry run would do, and return the exit code; raise what speaks against it."""
    from dataclasses import replace

    run = replace(run, results=tuple(gate.judge(run.results)))
    confirm(run)
    if form != "text":
        from fleet.plan.views.json import plan_data

        plan = plan_data([result.branch for result in run.results])
        emit_result({"revision": files.revision, "plan": plan}, form, lambda: "")
    for line in run.remarks:
        print_message(line)
    return finish(collect_errors(run.results))


def _check_signature(files: Checkout, signers: Path | None) -> None:
    """Raise an error if the user named signers and none of them signed the commit."""
    if signers:
        from fleet.sync.source import check_signature

        assert files.git is not None  # noqa: S101 - commits come from git
        check_signature(files.git, files.revision, signers)


def _publish(
    files: Checkout, run: Run, selected: Sequence[ClusterTarget], *, narrowed: bool, part: bool
) -> FleetError | None:
    """Write health into git; return the error if that fails: the clusters are changed, so it is raised last."""
    from fleet.errors import FleetError
    from fleet.sync.report import observed_results, publish_status, removed_placements

    if part:
        print_message("health was not written into git: only a part of the commit was applied")
        return None
    results = observed_results(run.results, run.looked_at, by_account=bool(files.repository.settings.trust.account))
    seen = {(result.stack, result.cluster) for result in results}
    unseen = [
        f"{result.stack} on {result.cluster}" for result in run.results if (result.stack, result.cluster) not in seen
    ]
    if unseen:
        more = f" and {len(unseen) - 5} more" if len(unseen) > 5 else ""
        print_message(f"not written into git, since it could not be looked at from here: {', '.join(unseen[:5])}{more}")
    try:
        if narrowed:
            publish_status(files, results)
        else:
            publish_status(files, results, gone=removed_placements(selected))
    except FleetError as error:
        error.message = f"health was not written into git: {error.message}"
        error.hint = error.hint or "--no-status leaves it out"
        return error
    return None
