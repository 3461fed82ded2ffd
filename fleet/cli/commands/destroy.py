"""`fleet destroy`: the removal of stacks from clusters, by what their inventories say.

Git is not changed, and read only for what the next sync would bring back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import cluster_options, take_over_option, wait_options
from fleet.cli.output import emit_result, output_option, print_message
from fleet.cli.plans import print_plan
from fleet.cli.results import collect_errors, finish, format_results, results_data
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.evaluate.result import StackResult
    from fleet.sync.options import SyncHooks
    from fleet.sync.run import Run
    from fleet.sync.source import WorkingTree


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
    from fleet.plan.budget import UNLIMITED
    from fleet.sync.commit import CommitOptions, run_options
    from fleet.sync.progress import show_progress
    from fleet.sync.run import plan_fleet, sync_fleet
    from fleet.sync.source import read_working_tree
    from fleet.sync.targets import empty_targets

    with read_working_tree() as files:
        every_cluster = evaluate(files.repository, stacks=()).check().clusters
    selected = empty_targets(every_cluster, stacks, clusters)
    flags = CommitOptions(kubeconfig, wait=wait, timeout=timeout, take_over=take_over, allow_deletes=UNLIMITED)
    options = run_options(files, flags)
    with show_progress(quiet=form != "text", lines=False) as progress:
        planned = _drop_empty(asyncio.run(plan_fleet(selected, options, progress)))
    finish([*collect_errors(planned.results), *_collect_suspension_errors(planned)])
    _check_deployed(planned, stacks)
    if form == "text":
        print_plan(planned, form)
    for line in _describe_next_sync(planned):
        print_message(line)
    if not yes:
        _confirm(planned)
    placements = {(result.stack, result.cluster) for result in planned.results}
    deployed = tuple(target for target in (target.only(placements) for target in selected) if target.desired)
    hooks = _make_hooks(planned)
    with show_progress(quiet=form != "text") as progress:
        run = asyncio.run(sync_fleet(deployed, options, progress, hooks, revision=""))
    emit_result(results_data(run.results), form, lambda: format_results(run.results))
    errors = collect_errors(run.results)
    if status:
        _remove_status(files, run)
    return finish(errors)


def _describe_next_sync(planned: Run) -> list[str]:
    """Describe what the next sync of the checked out commit brings back; nothing where no commit can be synced."""
    from fleet.errors import FleetError
    from fleet.evaluate import evaluate
    from fleet.sync.source import read_commit

    taken = [(result.stack, result.cluster) for result in planned.results]
    try:
        with read_commit(use_cache=True) as files:
            evaluation = files.remembered or evaluate(files.repository).check()
    except FleetError as error:
        names = ", ".join(dict.fromkeys(stack for stack, _ in taken))
        return [f"whether git still has {names} is not known: {error.message}; if it has, the next sync brings it back"]
    return describe_returning(evaluation.stacks, taken)


def describe_returning(stacks: Sequence[StackResult], taken: Sequence[tuple[str, str]]) -> list[str]:
    """Describe for each stack that git still places in a cluster of `taken` what keeps a sync from restoring it."""
    lines = []
    for stack in stacks:
        clusters = [cluster for name, cluster in taken if name == stack.name and cluster in stack.clusters]
        if clusters:
            stays_elsewhere = len(clusters) < len(stack.clusters)
            change = (
                f"take {' and '.join(clusters)} out of its clusters=" if stays_elsewhere else "remove the stack there"
            )
            lines.append(
                f"git still has {stack.name} ({stack.source}), and the next sync brings it back on "
                f"{' and '.join(clusters)}; to keep it away, {change} and commit that"
            )
    return lines


def _make_hooks(shown: Run) -> SyncHooks:
    """Return hooks that refuse deletions which the user did not see: another sync may have added objects since."""
    from fleet.sync.options import SyncHooks
    from fleet.sync.result import refuse_new_deletions

    shown_plans = {(result.stack, result.cluster): result.plan for result in shown.results}

    class ShownHooks(SyncHooks):
        def confirm(self, planned: Run) -> None:
            for result in planned.results:
                shown_plan = shown_plans.get((result.stack, result.cluster))
                if result.plan and shown_plan:
                    refuse_new_deletions(shown_plan, result.plan)

    return ShownHooks()


def _drop_empty(run: Run) -> Run:
    """Return the run without the clusters that have nothing of the stacks."""
    from dataclasses import replace

    results = (
        result for result in run.results if result.problem or result.suspended or (result.plan and result.plan.steps)
    )
    return replace(run, results=tuple(results))


def _collect_suspension_errors(run: Run) -> list[FleetError]:
    """Return an error for each suspended stack: the user has to resume it first."""
    from fleet.errors import PolicyError

    return [
        PolicyError(
            f"{result.cluster}: {result.stack} is {result.suspended}", hint=f"first: fleet resume {result.stack}"
        )
        for result in run.results
        if result.suspended
    ]


def _check_deployed(run: Run, stacks: Sequence[str]) -> None:
    """Raise NotFoundError for a stack that no cluster has anything of."""
    from fleet.errors import NotFoundError

    for stack in stacks:
        if not any(result.stack == stack for result in run.results):
            raise NotFoundError(
                f"no cluster has anything of stack {stack!r}", hint="`fleet status` lists what there is"
            )


def _confirm(run: Run) -> None:
    """Ask the user whether to delete what is shown; raise ConfigurationError where there is no terminal."""
    import sys

    from fleet.errors import ConfigurationError

    if not sys.stdin.isatty():
        raise ConfigurationError("this would delete what is shown", hint="say so with --yes")
    count = len({result.cluster for result in run.results})
    click.confirm(f"Delete this in {count_noun(count, 'cluster')}?", abort=True, err=True)


def _remove_status(files: WorkingTree, run: Run) -> None:
    """Remove what is deleted from the status branch; a message says if that fails."""
    from fleet.errors import FleetError
    from fleet.sync.report import publish_status

    gone = [(result.stack, result.cluster) for result in run.results if not result.problem]
    try:
        publish_status(files, (), gone)
    except FleetError as error:
        print_message(f"it was not written into git: {error.message}")
