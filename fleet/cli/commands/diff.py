"""`fleet diff`: where the clusters are not what git says, field by field. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import choice_options, claim_options
from fleet.cli.output import emit, output_option, remark

if TYPE_CHECKING:
    from fleet.plan.drift import Difference
    from fleet.sync.result import Result


@click.command()
@choice_options
@click.option("--revision", metavar="REV", default="HEAD", show_default=True, help="The commit to compare with.")
@click.option("--drift", "only_drift", is_flag=True, help="Only what others changed in the clusters, not what waits.")
@claim_options
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
    import asyncio

    from fleet.cli.commands.preview import finish
    from fleet.cli.gc import collect_seldom
    from fleet.plan.drift import DifferenceKind, differences
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.progress import shown
    from fleet.sync.run import How, preview
    from fleet.sync.source import commit, evaluated
    from fleet.sync.targets import targets

    collect_seldom()
    with commit(revision, known=True) as files:
        evaluation = evaluated(files, stacks)
    claim = RepositoryOwnership(files.identity, frozenset(take_over), frozenset(renamed_from))
    how = How(kubeconfig, claim=claim, accounts=files.repository.settings.trust.account)
    with shown(quiet=form != "text", lines=False) as progress:
        run = asyncio.run(preview(targets(evaluation, stacks, clusters), how, progress))
    found = differences(one.plan for one in run.results if one.plan)
    if only_drift:
        found = [one for one in found if one.why is DifferenceKind.DRIFT]
    unknown = [one for one in run.results if one.problem and not one.plan]
    data = {
        "revision": files.revision,
        "differences": [_data(one) for one in found],
        "failed": [{"stack": one.stack, "cluster": one.cluster, "error": str(one.problem)} for one in unknown],
    }
    emit(data, form, lambda: _text(found, run.results))
    for line in run.remarks:
        remark(line)
    return finish([one.problem for one in unknown if one.problem], len(found) if expect_no_changes else 0)


def _text(found: Sequence[Difference], results: Sequence[Result]) -> str:
    """What differs, and what is not known to differ because it could not be compared."""
    compared = [one for one in results if one.plan]
    unknown = [one for one in results if one.problem and not one.plan]
    said = _differing(found) if compared or not unknown else ["nothing is known"]
    by_cluster: dict[str, list[str]] = {}
    for one in unknown:
        by_cluster.setdefault(one.cluster, []).append(one.stack)
    said += [f"could not be compared on {cluster}: {', '.join(names)}" for cluster, names in by_cluster.items()]
    return "\n".join(said)


def _differing(found: Sequence[Difference]) -> list[str]:
    from itertools import groupby

    from fleet.plan.views.escape import escape_line

    if not found:
        return ["no differences"]
    lines = []
    for (stack, cluster), its in groupby(found, key=lambda one: (one.stack, one.cluster)):
        lines.append(escape_line(f"{stack} on {cluster}"))
        for one in its:
            lines.append(f"  {one.why:<8}  {escape_line(str(one.key))} {escape_line(one.what)}")
            lines += [f"            {escape_line(str(field))}" for field in one.fields]
    return lines


def _data(one: Difference) -> dict[str, Any]:
    from fleet.plan.views.json import key_data

    return {
        "stack": one.stack,
        "cluster": one.cluster,
        "object": key_data(one.key),
        "why": one.why.value,
        "what": one.what,
        "fields": [field._asdict() for field in one.fields],
    }
