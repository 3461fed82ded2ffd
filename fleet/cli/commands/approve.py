""".

`fleet approve`: a person's word in git, for a commit that had no pull request, or for a wave of a rollout.

`fleet approve STACK WAVE`: a person's word that a wave of a rollout may begin, written into git.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.commands.preview import finish, print_plan, problems
from fleet.cli.options import claim_options, cluster_options
from fleet.cli.output import emit, output_option, remark
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.evaluate.result import StackResult
    from fleet.sync.run import Run


@click.command()
@click.argument("wave", nargs=-1, metavar="[STACK WAVE]")
@cluster_options
@click.option("--revision", metavar="REV", default="HEAD", show_default=True, help="The commit to approve.")
@claim_options
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
        return approve_wave(*checked(wave), revision)

    import asyncio

    from fleet.approval.recording import record_commit
    from fleet.plan.budget import UNLIMITED, DeletionBudget
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.progress import shown
    from fleet.sync.run import How, preview
    from fleet.sync.source import commit, evaluated
    from fleet.sync.targets import targets

    with commit(revision, known=True) as files:
        evaluation = evaluated(files, ())
    claim = RepositoryOwnership(files.identity, frozenset(take_over), frozenset(renamed_from))
    budget = DeletionBudget.override(UNLIMITED)  # that is the sync's business
    how = How(kubeconfig, budget=budget, claim=claim, accounts=files.repository.settings.trust.account)
    with shown(quiet=form != "text", lines=False) as progress:
        run = asyncio.run(preview(targets(evaluation, (), clusters), how, progress, revision=files.revision))
    if form == "text":
        print_plan(run, form)
    finish(problems(run.results))
    plans = [one.plan for one in run.results if one.plan and not one.plan.empty]
    if not plans:
        emit({"revision": files.revision, "recorded": False}, form, lambda: "nothing to approve")
        return 0
    if not yes:
        _ask(run)
    record, written = record_commit(files, evaluation, plans, message)
    done = {"revision": files.revision, "tree": record.tree, "planHash": record.plan_hash, "recorded": True}
    emit(done, form, lambda: f"approved: {files.title}")
    if not written:
        remark("it was recorded before")
    return 0


def _ask(run: Run) -> None:
    import sys

    from fleet.errors import ConfigurationError

    if not sys.stdin.isatty():
        raise ConfigurationError("this would approve what is shown", hint="say so with --yes")
    places = len({one.cluster for one in run.results if one.plan and not one.plan.empty})
    click.confirm(f"Approve this for {count_noun(places, 'cluster')}?", abort=True, err=True)


def checked(words: Sequence[str]) -> tuple[str, int]:
    """STACK and WAVE, as they were typed."""
    if len(words) != 2 or not words[1].isdigit() or int(words[1]) < 1:
        raise click.UsageError("say a stack and the number of a wave, as in: fleet approve orders 2")
    return words[0], int(words[1])


def approve_wave(stack: str, wave: int, revision: str) -> int:
    """Write the word for a wave, as the stack is at a commit."""
    from datetime import UTC, datetime

    from fleet.git.status import chosen
    from fleet.git.status_records import timestamp
    from fleet.kube.identity import name
    from fleet.sync.rollout.approvals import Approval, digest
    from fleet.sync.rollout.approvals import approve as write
    from fleet.sync.source import commit, evaluated

    with commit(revision, known=True) as files:
        (found,) = evaluated(files, [stack]).stacks
        _check(found, wave)
        assert files.git is not None  # noqa: S101 - a commit is of one
        remote = chosen(files.remotes, files.repository.settings.git.remote)
        by, at = name().partition(" ")[0], timestamp(datetime.now(UTC))
        given = Approval(stack, digest(found), wave, by, at, files.revision)
        new = write(files.git, remote, given)
    clusters = ", ".join(found.rollout.waves[wave - 1])
    said = "may begin" if new else "was approved before"
    click.echo(f"wave {wave} of {stack} ({clusters}) {said}, as {files.title} has it")
    return 0


def _check(found: StackResult, wave: int) -> None:
    from fleet.errors import ConfigurationError, NotFoundError

    waves = found.rollout.waves
    if wave > len(waves):
        raise NotFoundError(f"stack {found.name} has no wave {wave}", hint=f"it has {len(waves)}", source=found.source)
    if wave not in found.rollout.approve:
        raise ConfigurationError(
            f"wave {wave} of {found.name} waits for nobody's word",
            hint=f"ask for it with fleet.Rollout(approve=[{wave}], …)",
            source=found.source,
        )
