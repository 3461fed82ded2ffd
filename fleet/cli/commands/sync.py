"""`fleet sync`: make every cluster what a commit says, wait until it is healthy, and write that into git."""

from __future__ import annotations

from collections.abc import Sequence
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
from fleet.cli.plans import count_changes
from fleet.cli.results import collect_errors, finish, format_results, results_data

if TYPE_CHECKING:
    from fleet.sync.run import Run


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
@click.option("--allow-rewritten", is_flag=True, help="Apply a commit that does not descend from what was applied.")
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
    fleet.toml allows. A stack that another repository applied is refused, and so is a commit that does not descend from
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
    from fleet.cli.process import collect_rarely
    from fleet.cli.sync_hooks import UserHooks
    from fleet.sync.commit import CommitOptions, sync_commit
    from fleet.sync.source import read_commit

    collect_rarely()

    def confirm(planned: Run) -> None:
        if expect_no_changes:
            finish(collect_errors(planned.results), count_changes(planned))

    hooks = UserHooks(
        form,
        confirm,
        show_unchanged=show_unchanged,
        ignore_rollout=ignore_rollout,
        require_approved=require_approved,
    )
    options = CommitOptions(
        kubeconfig=kubeconfig,
        stacks=stacks,
        clusters=clusters,
        only=only,
        exclude=exclude,
        take_over=take_over,
        renamed_from=renamed_from,
        allow_deletes=allow_deletes,
        wait=wait,
        timeout=timeout,
        dry_run=dry_run,
        rollout=not ignore_rollout,
        status=status,
        require_approved=require_approved,
        any_branch=any_branch or dry_run or expect_no_changes,
        allow_earlier=revision is not None,
        allow_rewritten=allow_rewritten,
        signers=signers,
    )
    with read_commit(revision or "HEAD", use_cache=True) as files:
        outcome = sync_commit(files, options, hooks)
    run = outcome.run
    if dry_run:
        return _finish_trial(run, files.revision, form)
    errors = collect_errors(run.results) + [result.unhealthy for result in run.results if result.unhealthy]
    emit_result({"revision": files.revision, **results_data(run.results)}, form, lambda: format_results(run.results))
    for line in run.remarks:
        print_message(line)
    return finish([*errors, *([outcome.status_error] if outcome.status_error else [])])


def _finish_trial(run: Run, revision: str, form: str) -> int:
    """Print the outcome of a dry run, and return the exit code; raise what speaks against it."""
    if form != "text":
        from fleet.plan.views.json import plan_data

        plan = plan_data([result.branch for result in run.results])
        emit_result({"revision": revision, "plan": plan}, form, lambda: "")
    for line in run.remarks:
        print_message(line)
    return finish(collect_errors(run.results))
