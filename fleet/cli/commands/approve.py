"""`fleet approve`: approvals written into git, of a commit that had no pull request, or of a wave of a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import cluster_options, ownership_options
from fleet.cli.output import emit_result, output_option, print_message
from fleet.cli.plans import print_plan
from fleet.cli.results import collect_errors, finish
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.evaluate.result import StackResult
    from fleet.sync.run import Run


@click.command()
@click.argument("wave", nargs=-1, metavar="[STACK WAVE]")
@cluster_options
@click.option("--revision", metavar="REV", default="HEAD", show_default=True, help="The commit to approve.")
@ownership_options
@click.option("-m", "--message", default="", metavar="TEXT", help="Why; it is kept with the record.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
def approve(
    *,
    wave: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    revision: str,
    renamed_from: Sequence[str],
    take_over: Sequence[str],
    message: str,
    yes: bool,
    form: str,
) -> int:
    """Show what `fleet sync` would do with a commit, and record that it is approved.

    For what no pull request brought: a commit that was pushed straight to the branch, the first sync of a new cluster,
    a repair that restarts pods, a way back to an older commit, another release of fleet. Nothing is changed in any
    cluster. All of them must answer; --cluster leaves others out. Whoever may push to the branch for approvals may
    approve.

    With STACK and WAVE, let that wave of the stack's rollout begin, where the rollout asks for a word. Waves count from
    1. It holds for what the stack wants at that commit, in all its clusters; later commits that change nothing of it
    need no new one. Waves before it must be healthy all the same.

    \b
    fleet approve --revision 1f2e3d4 -m "a hotfix"
    fleet approve orders 2
    """
    if wave:
        return approve_wave(*_parse_wave(wave), revision)

    from fleet.approval.recording import record_commit
    from fleet.cli.sync_hooks import PlanningHooks
    from fleet.plan.budget import UNLIMITED
    from fleet.sync.commit import CommitOptions, plan_commit
    from fleet.sync.source import read_commit

    options = CommitOptions(
        kubeconfig,
        clusters=clusters,
        take_over=take_over,
        renamed_from=renamed_from,
        allow_deletes=UNLIMITED,  # the sync checks it
    )
    with read_commit(revision, use_cache=True) as files:
        planned = plan_commit(files, options, PlanningHooks(form))
    run, evaluation = planned.run, planned.evaluation
    if form == "text":
        print_plan(run, form)
    finish(collect_errors(run.results))
    plans = [result.plan for result in run.results if result.plan and not result.plan.empty]
    if not plans:
        emit_result({"revision": files.revision, "recorded": False}, form, lambda: "nothing to approve")
        return 0
    if not yes:
        _confirm(run)
    record, is_new = record_commit(files, evaluation, plans, message)
    data = {"revision": files.revision, "tree": record.tree, "planHash": record.plan_hash, "recorded": True}
    emit_result(data, form, lambda: f"approved: {files.title}")
    if not is_new:
        print_message("it was recorded before")
    return 0


def _confirm(run: Run) -> None:
    """Ask the user whether to approve what is shown; raise ConfigurationError where there is no terminal."""
    import sys

    from fleet.errors import ConfigurationError

    if not sys.stdin.isatty():
        raise ConfigurationError("this would approve what is shown", hint="say so with --yes")
    count = len({result.cluster for result in run.results if result.plan and not result.plan.empty})
    click.confirm(f"Approve this for {count_noun(count, 'cluster')}?", abort=True, err=True)


def _parse_wave(arguments: Sequence[str]) -> tuple[str, int]:
    """Return STACK and WAVE as the user typed them; raise UsageError for anything else."""
    if len(arguments) != 2 or not arguments[1].isdigit() or int(arguments[1]) < 1:
        raise click.UsageError("say a stack and the number of a wave, as in: fleet approve orders 2")
    return arguments[0], int(arguments[1])


def approve_wave(stack: str, wave: int, revision: str) -> int:
    """Record that a wave of a stack may begin with what the stack is at a commit."""
    from datetime import UTC, datetime

    from fleet.git.status import choose_remote
    from fleet.git.status_records import timestamp
    from fleet.kube.identity import name
    from fleet.sync.rollout.approvals import WaveApproval, changes_digest
    from fleet.sync.rollout.approvals import approve_wave as write_approval
    from fleet.sync.source import evaluate_checkout, read_commit

    with read_commit(revision, use_cache=True) as files:
        (evaluated_stack,) = evaluate_checkout(files, [stack]).stacks
        _check_wave(evaluated_stack, wave)
        remote = choose_remote(files.remotes, files.repository.settings.git.remote)
        by, at = name().partition(" ")[0], timestamp(datetime.now(UTC))
        approval = WaveApproval(stack, changes_digest(evaluated_stack), wave, by, at, files.revision)
        is_new = write_approval(files.git, remote, approval)
    clusters = ", ".join(evaluated_stack.rollout.waves[wave - 1])
    outcome = "may begin" if is_new else "was approved before"
    click.echo(f"wave {wave} of {stack} ({clusters}) {outcome}, as {files.title} has it")
    return 0


def _check_wave(stack: StackResult, wave: int) -> None:
    """Raise an error for a wave that the stack does not have, or that waits for no approval."""
    from fleet.errors import ConfigurationError, NotFoundError

    waves = stack.rollout.waves
    if wave > len(waves):
        raise NotFoundError(f"stack {stack.name} has no wave {wave}", hint=f"it has {len(waves)}", source=stack.source)
    if wave not in stack.rollout.approve:
        raise ConfigurationError(
            f"wave {wave} of {stack.name} needs no approval",
            hint=f"ask for it with fleet.Rollout(approve=[{wave}], …)",
            source=stack.source,
        )
