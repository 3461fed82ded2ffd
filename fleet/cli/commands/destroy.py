"""`fleet destroy`: take stacks out of clusters, by what their inventories say.

Git is not changed, and asked only for what it would bring back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.commands.preview import finish, print_plan, problems
from fleet.cli.commands.sync import results_data, results_text
from fleet.cli.options import cluster_options, take_over_option, wait_options
from fleet.cli.output import emit, output_option, remark
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.evaluate.result import StackResult
    from fleet.sync.run import Run
    from fleet.sync.source import Files


@click.command()
@click.argument("stacks", metavar="STACK...", nargs=-1, required=True)
@cluster_options
@wait_options
@take_over_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--status/--no-status", default=True, help="Write it into git. [default: status]")
@output_option
def destroy(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    wait: bool,
    timeout: float,
    take_over: Sequence[str],
    yes: bool,
    status: bool,
    form: str,
) -> int:
    """Delete everything that STACK has in the clusters (or only those of --cluster).

    Protected objects are refused. What holds data (namespaces, volume claims), and what has retain_on_delete, is left
    running and forgotten. While a stack is still in git, the next sync makes it again, and a remark says so: to keep it
    away, remove it from its file, or the clusters from its clusters=, and commit that. A stack that another repository
    applied is refused.

    \b
    fleet destroy orders --cluster eu-1
    fleet destroy orders --yes
    """
    import asyncio

    from fleet.evaluate import evaluate
    from fleet.plan.budget import UNLIMITED, DeletionBudget
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.progress import shown
    from fleet.sync.run import How, preview, sync
    from fleet.sync.source import working_tree
    from fleet.sync.targets import emptied

    with working_tree() as files:
        known = evaluate(files.repository, stacks=()).check().clusters
    wanted = emptied(known, stacks, clusters)
    claim = RepositoryOwnership(files.identity, frozenset(take_over))
    accounts = files.repository.settings.trust.account
    all_of_it = DeletionBudget.override(UNLIMITED)
    how = How(kubeconfig, wait=wait, timeout=timeout, budget=all_of_it, claim=claim, accounts=accounts)
    with shown(quiet=form != "text", lines=False) as progress:
        planned = with_something(asyncio.run(preview(wanted, how, progress)))
    finish([*problems(planned.results), *_suspended(planned)])
    check_found(planned, stacks)
    if form == "text":
        print_plan(planned, form)
    for line in _returning(planned):
        remark(line)
    if not yes:
        _ask(planned)
    there = {(one.stack, one.cluster) for one in planned.results}
    wanted = tuple(one for one in (target.only(there) for target in wanted) if one.desired)
    with shown(quiet=form != "text") as progress:
        run = asyncio.run(sync(wanted, how, progress, revision="", approve=_no_more_than(planned)))
    emit(results_data(run.results), form, lambda: results_text(run.results))
    found = problems(run.results)
    if status:
        _forget(files, run)
    return finish(found)


def _returning(planned: Run) -> list[str]:
    """Say what the next sync of the checked out commit brings back; nothing where no commit can be synced."""
    from fleet.errors import FleetError
    from fleet.evaluate import evaluate
    from fleet.sync.source import commit

    taken = [(one.stack, one.cluster) for one in planned.results]
    try:
        with commit(known=True) as files:
            evaluation = files.remembered or evaluate(files.repository).check()
    except FleetError as error:
        names = ", ".join(dict.fromkeys(stack for stack, _ in taken))
        return [f"whether git still has {names} is not known: {error.message}; if it has, the next sync brings it back"]
    return returning(evaluation.stacks, taken)


def returning(stacks: Sequence[StackResult], taken: Sequence[tuple[str, str]]) -> list[str]:
    """Say for each stack that git places where it is taken out that a sync brings it back, and what prevents that."""
    lines = []
    for stack in stacks:
        clusters = [cluster for name, cluster in taken if name == stack.name and cluster in stack.clusters]
        if clusters:
            others = len(clusters) < len(stack.clusters)
            change = f"take {' and '.join(clusters)} out of its clusters=" if others else "remove the stack there"
            lines.append(
                f"git still has {stack.name} ({stack.source}), and the next sync brings it back on "
                f"{' and '.join(clusters)}; to keep it away, {change} and commit that"
            )
    return lines


def _no_more_than(planned: Run) -> Callable[[Run], None]:
    """Whoever said yes saw a plan: what another sync has added since is not in it."""
    from fleet.sync.result import refuse_more

    shown = {(one.stack, one.cluster): one.plan for one in planned.results}

    def approve(run: Run) -> None:
        for one in run.results:
            before = shown.get((one.stack, one.cluster))
            if one.plan and before:
                refuse_more(before, one.plan)

    return approve


def with_something(run: Run) -> Run:
    """Without the clusters that have nothing of the stacks."""
    from dataclasses import replace

    found = (one for one in run.results if one.problem or one.suspended or (one.plan and one.plan.steps))
    return replace(run, results=tuple(found))


def _suspended(run: Run) -> list[FleetError]:
    from fleet.errors import PolicyError

    return [
        PolicyError(f"{one.cluster}: {one.stack} is {one.suspended}", hint=f"first: fleet resume {one.stack}")
        for one in run.results
        if one.suspended
    ]


def check_found(run: Run, stacks: Sequence[str]) -> None:
    from fleet.errors import NotFoundError

    for stack in stacks:
        if not any(one.stack == stack for one in run.results):
            raise NotFoundError(
                f"no cluster has anything of stack {stack!r}", hint="`fleet status` lists what there is"
            )


def _ask(run: Run) -> None:
    import sys

    from fleet.errors import ConfigurationError

    if not sys.stdin.isatty():
        raise ConfigurationError("this would delete what is shown", hint="say so with --yes")
    places = len({one.cluster for one in run.results})
    click.confirm(f"Delete this in {count_noun(places, 'cluster')}?", abort=True, err=True)


def _forget(files: Files, run: Run) -> None:
    """The status branch no longer names what is gone."""
    from fleet.errors import FleetError
    from fleet.sync.report import publish

    gone = [(one.stack, one.cluster) for one in run.results if not one.problem]
    try:
        publish(files, (), gone)
    except FleetError as problem:
        remark(f"it was not written into git: {problem.message}")
