"""`fleet approve`: a person's word in git, for a commit that had no pull request, or for a wave of a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.flags import claim_options, cluster_options
from fleet.cli.output import emit, output_option, remark
from fleet.cli.preview import finish, print_plan, problems
from fleet.printable import count_noun

if TYPE_CHECKING:
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
        from fleet.cli.approve_wave import approve_wave, checked

        return approve_wave(*checked(wave), revision)

    import asyncio

    from fleet.approve.recording import record_commit
    from fleet.plan.budget import UNLIMITED, Allowance
    from fleet.plan.claim import Claim
    from fleet.sync.choice import targets
    from fleet.sync.evaluated import evaluated
    from fleet.sync.progress import shown
    from fleet.sync.run import How, preview
    from fleet.sync.source import commit

    with commit(revision, known=True) as files:
        evaluation = evaluated(files, ())
    claim = Claim(files.identity, frozenset(take_over), frozenset(renamed_from))
    budget = Allowance.said(UNLIMITED)  # that is the sync's business
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
