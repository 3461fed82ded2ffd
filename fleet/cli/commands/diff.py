"""`fleet diff`: the differences between git and the clusters, field by field. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import ownership_options, selection_options
from fleet.cli.output import emit_result, output_option, print_message

if TYPE_CHECKING:
    from fleet.plan.drift import Difference
    from fleet.sync.result import Result


@click.command()
@selection_options
@click.option("--revision", metavar="REV", default="HEAD", show_default=True, help="The commit to compare with.")
@click.option("--drift", "only_drift", is_flag=True, help="Only what others changed in the clusters, not what waits.")
@ownership_options
@click.option("--expect-no-changes", is_flag=True, help="Exit with code 7 if anything differs.")
@output_option
def diff(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    revision: str,
    only_drift: bool,
    renamed_from: Sequence[str],
    take_over: Sequence[str],
    expect_no_changes: bool,
    form: str,
) -> int:
    """Compare a commit with what is in the clusters, and say of each object what differs and whose doing it is.

    Drift is what somebody changed behind git's back: git says what it said when it was applied. Everything else waits
    for a sync. Values of secrets are not shown. `fleet preview` says what a sync would do about it.

    \b
    fleet diff --stack orders
    fleet diff --drift --expect-no-changes
    """
    from fleet.cli.process import collect_rarely
    from fleet.cli.results import finish
    from fleet.cli.sync_hooks import PlanningHooks
    from fleet.plan.drift import DifferenceKind, differences
    from fleet.sync.commit import CommitOptions, plan_commit
    from fleet.sync.source import read_commit

    collect_rarely()
    options = CommitOptions(
        kubeconfig, stacks=stacks, clusters=clusters, take_over=take_over, renamed_from=renamed_from
    )
    with read_commit(revision, use_cache=True) as files:
        run = plan_commit(files, options, PlanningHooks(form)).run
    differing = differences(result.plan for result in run.results if result.plan)
    if only_drift:
        differing = [difference for difference in differing if difference.why is DifferenceKind.DRIFT]
    failed = [result for result in run.results if result.problem and not result.plan]
    data = {
        "revision": files.revision,
        "differences": [_difference_data(difference) for difference in differing],
        "failed": [
            {"stack": result.stack, "cluster": result.cluster, "error": str(result.problem)} for result in failed
        ],
    }
    emit_result(data, form, lambda: _format_comparison(differing, run.results))
    for line in run.remarks:
        print_message(line)
    errors = [result.problem for result in failed if result.problem]
    return finish(errors, len(differing) if expect_no_changes else 0)


def _format_comparison(differing: Sequence[Difference], results: Sequence[Result]) -> str:
    """Return lines about what differs, and about what could not be compared."""
    compared = [result for result in results if result.plan]
    failed = [result for result in results if result.problem and not result.plan]
    lines = _format_differences(differing) if compared or not failed else ["nothing is known"]
    by_cluster: dict[str, list[str]] = {}
    for result in failed:
        by_cluster.setdefault(result.cluster, []).append(result.stack)
    lines += [f"could not be compared on {cluster}: {', '.join(names)}" for cluster, names in by_cluster.items()]
    return "\n".join(lines)


def _format_differences(differing: Sequence[Difference]) -> list[str]:
    from itertools import groupby

    from fleet.plan.views.escape import escape_line

    if not differing:
        return ["no differences"]
    lines = []
    for (stack, cluster), group in groupby(differing, key=lambda difference: (difference.stack, difference.cluster)):
        lines.append(escape_line(f"{stack} on {cluster}"))
        for difference in group:
            lines.append(f"  {difference.why:<8}  {escape_line(str(difference.key))} {escape_line(difference.what)}")
            lines += [f"            {escape_line(str(field))}" for field in difference.fields]
    return lines


def _difference_data(difference: Difference) -> dict[str, Any]:
    from fleet.plan.views.json import key_data

    return {
        "stack": difference.stack,
        "cluster": difference.cluster,
        "object": key_data(difference.key),
        "why": difference.why.value,
        "what": difference.what,
        "fields": [field._asdict() for field in difference.fields],
    }
