"""`fleet preview`: what a sync would do in every cluster. It sends no write at all, to nobody."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.flags import choice_options, claim_options, colour_wanted
from fleet.cli.output import emit, remark

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.sync.outcome import Result
    from fleet.sync.run import Run


@click.command()
@choice_options
@click.option("--revision", metavar="REV", help="Preview this commit and not the working tree.")
@claim_options
@click.option("--expect-no-changes", is_flag=True, help="Exit with code 7 if anything would change.")
@click.option("--show-unchanged", is_flag=True, help="Show objects that stay as they are, too.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json", "yaml", "markdown"]),
    default="text",
    show_default=True,
    help="Form of the result on standard output.",
)
def preview(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    revision: str | None,
    renamed_from: Sequence[str],
    take_over: Sequence[str],
    expect_no_changes: bool,
    show_unchanged: bool,
    form: str,
) -> int:
    """Show what `fleet sync` would do: stack by stack, cluster by cluster, object by object.

    Reads the working tree, so that a change can be looked at before it is committed.
    """
    import asyncio

    from fleet.cli.collector import collect_seldom
    from fleet.plan.claim import Claim
    from fleet.sync.choice import targets
    from fleet.sync.evaluated import evaluated
    from fleet.sync.progress import shown
    from fleet.sync.run import How, preview
    from fleet.sync.source import commit, working_tree

    collect_seldom()
    with commit(revision, known=True) if revision else working_tree() as files:
        evaluation = evaluated(files, stacks)
    claim = Claim(files.identity, frozenset(take_over), frozenset(renamed_from))
    how = How(kubeconfig, deletions=files.repository.settings.budget.deletions, claim=claim)
    with shown(quiet=form != "text", lines=False) as progress:
        run = asyncio.run(preview(targets(evaluation, stacks, clusters), how, progress))
    print_plan(run, form, unchanged=show_unchanged)
    return finish(problems(run.results), changes_of(run) if expect_no_changes else 0)


def print_plan(run: Run, form: str, *, unchanged: bool = False) -> None:
    branches = [result.branch for result in run.results]
    if form == "markdown":
        from fleet.plan.markdown import markdown

        click.echo(markdown(branches))
    else:
        from fleet.plan.data import plan_data
        from fleet.plan.text import tree

        data = plan_data(branches, unchanged=unchanged) if form != "text" else {}
        emit(data, form, lambda: tree(branches, colour=colour_wanted(), unchanged=unchanged))
    for line in run.remarks:
        remark(line)


def changes_of(run: Run) -> int:
    plans = [one.plan for one in run.results if one.plan]
    return sum(bool(plan.taken_from) + sum(step.verb != "unchanged" for step in plan.steps) for plan in plans)


def problems(results: Sequence[Result]) -> list[FleetError]:
    """What is wrong, conflicts in the plans included."""
    from fleet.sync.verdict import problem_of

    found = [one.problem or (problem_of(one.plan, None) if one.plan else None) for one in results]
    return [problem for problem in found if problem]


def finish(found: Sequence[FleetError], unexpected: int = 0) -> int:
    """Raise what went wrong, then what was not expected; else 0."""
    from fleet.errors import ChangesError
    from fleet.sync.outcome import failure

    error = failure(found)
    if error:
        raise error
    if unexpected:
        raise ChangesError(f"{unexpected} change{'s' if unexpected > 1 else ''} where none were expected")
    return 0
