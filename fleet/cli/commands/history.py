"""`fleet history`: which commits were synced, by whom, when, and what became of each in every cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import choice_options
from fleet.cli.output import emit, output_option, remark
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.git.history import Entry
    from fleet.git.status import Outcome
    from fleet.sync.source import Files

Current = dict[tuple[str, str], str]  # stack and cluster → the commit that last changed it there


@click.command()
@choice_options
@click.option("--git", "from_git", is_flag=True, help="Read git alone; no cluster is asked what it has now.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many commits to show.")
@output_option
def history(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    from_git: bool,
    limit: int,
    form: str,
) -> int:
    """Show the commits that were synced, newest first, with who applied them and the outcome in every cluster.

    It is read from the notes that syncs leave on commits. The clusters' inventories say which commit each has now.

    \b
    fleet history --stack orders --limit 5
    fleet history --git -o json
    """
    from fleet.cli.commands.preview import finish
    from fleet.git.history import chosen, read_history
    from fleet.git.repository import Repository as Git
    from fleet.git.status import destination
    from fleet.sync.source import working_tree

    with working_tree() as files:
        git = files.git or Git.find(files.repository.root)  # which says why there is none
        remote = destination(git, files.repository.settings.git.remote)
        found = chosen(read_history(git, remote), stacks, clusters)
        current, problems = ({}, []) if from_git else _now(files, clusters, kubeconfig)
    emit(_data(found[:limit], current), form, lambda: _text(found[:limit], current))
    if git.shallow:
        remark("this clone is shallow, and earlier commits are not shown: git fetch --unshallow")
    if len(found) > limit:
        remark(f"not shown: {count_noun(len(found) - limit, 'earlier one')}: --limit {len(found)}")
    return finish(problems)


def _now(files: Files, clusters: Sequence[str], kubeconfig: Path | None) -> tuple[Current, list[FleetError]]:
    """What the clusters have, and the errors of those that do not say."""
    import asyncio

    from fleet.apply.inventory import load_all
    from fleet.cli.clusters import Place, at_each, places
    from fleet.kube.client.client import Client
    from fleet.plan.ownership import RepositoryOwnership

    claim = RepositoryOwnership(files.identity)

    async def look(place: Place, client: Client) -> dict[str, str]:
        found = [one.inventory for one in await load_all(client)]
        return {one.stack: one.revision for one in found if claim.covers(one)}

    seen, problems = asyncio.run(at_each(places(clusters, None, kubeconfig), look))
    return {(stack, place): commit for place, its in seen.items() for stack, commit in its.items()}, problems


def _text(entries: Sequence[Entry], current: Current) -> str:
    from fleet.plan.views.escape import escape_line

    if not entries:
        return "nothing was synced yet"
    lines = []
    for one in entries:
        gone = "" if one.in_history else "  (not in this history)"
        head = f"{one.revision[:8]}  {_moment(one.time)}  {escape_line(one.author)}: {escape_line(one.subject)}{gone}"
        rows = [_row(each, one, current) for each in one.outcomes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        lines += [escape_line(head), *(f"  {escape_line(row).rstrip()}" for row in shown)]
    return "\n".join(lines)


def _row(outcome: Outcome, entry: Entry, current: Current) -> tuple[str, ...]:
    here = current.get((outcome.stack, outcome.cluster)) == entry.revision
    when = f"{outcome.at.replace('T', ' ').removesuffix('Z')[:16]} {outcome.by}".strip()
    notes = [word for word in ("changed it last" if here else "", outcome.message) if word]
    return (outcome.stack, outcome.cluster, f"{outcome.sync}, {outcome.health}", when, "; ".join(notes))


def _data(entries: Sequence[Entry], current: Current) -> dict[str, Any]:
    return {
        "commits": [
            {
                "revision": one.revision,
                "time": datetime.fromtimestamp(one.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "author": one.author,
                "subject": one.subject,
                "inHistory": one.in_history,
                "outcomes": [
                    {
                        "stack": each.stack,
                        "cluster": each.cluster,
                        "sync": each.sync,
                        "health": each.health,
                        "message": each.message,
                        "at": each.at,
                        "by": each.by,
                        "changedItLast": current.get((each.stack, each.cluster)) == one.revision,
                    }
                    for each in one.outcomes
                ],
            }
            for one in entries
        ],
    }


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
