"""`fleet history`: the commits that were synced, by whom, when, and the outcome of each in every cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import selection_options
from fleet.cli.output import emit_result, output_option, print_message
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.git.history import HistoryEntry
    from fleet.git.status import PublishOutcome
    from fleet.sync.source import WorkingTree

Current = dict[tuple[str, str], str]  # stack and cluster → the commit that last changed it there


@click.command()
@selection_options
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
    from fleet.cli.results import finish
    from fleet.git.history import read_history, select_entries
    from fleet.git.repository import GitRepository
    from fleet.git.status import destination
    from fleet.sync.source import read_working_tree

    with read_working_tree() as files:
        git = files.git or GitRepository.find(files.repository.root)  # which says why there is none
        remote = destination(git, files.repository.settings.git.remote)
        entries = select_entries(read_history(git, remote), stacks, clusters)
        current, errors = ({}, []) if from_git else _read_current(files, clusters, kubeconfig)
    emit_result(_history_data(entries[:limit], current), form, lambda: _format_entries(entries[:limit], current))
    if git.shallow:
        print_message("this clone is shallow, and earlier commits are not shown: git fetch --unshallow")
    if len(entries) > limit:
        print_message(f"not shown: {count_noun(len(entries) - limit, 'earlier one')}: --limit {len(entries)}")
    return finish(errors)


def _read_current(
    files: WorkingTree, names: Sequence[str], kubeconfig: Path | None
) -> tuple[Current, list[FleetError]]:
    """Return the commit of each stack in each cluster, and the errors of clusters that do not answer."""
    import asyncio

    from fleet.apply.inventory import load_all
    from fleet.cli.clusters import ClusterRef, resolve_clusters, run_in_each
    from fleet.kube.client.client import Client
    from fleet.plan.ownership import RepositoryOwnership

    claim = RepositoryOwnership(files.identity)

    async def read_revisions(_: ClusterRef, client: Client) -> dict[str, str]:
        inventories = [stored.inventory for stored in await load_all(client)]
        return {inventory.stack: inventory.revision for inventory in inventories if claim.covers(inventory)}

    results, errors = asyncio.run(run_in_each(resolve_clusters(names, None, kubeconfig), read_revisions))
    current = {(stack, cluster): commit for cluster, stacks in results.items() for stack, commit in stacks.items()}
    return current, errors


def _format_entries(entries: Sequence[HistoryEntry], current: Current) -> str:
    from fleet.plan.views.escape import escape_line

    if not entries:
        return "nothing was synced yet"
    lines = []
    for entry in entries:
        gone = "" if entry.in_history else "  (not in this history)"
        summary = f"{escape_line(entry.author)}: {escape_line(entry.subject)}{gone}"
        head = f"{entry.revision[:8]}  {_format_time(entry.time)}  {summary}"
        rows = [_format_outcome(outcome, entry, current) for outcome in entry.outcomes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        lines += [escape_line(head), *(f"  {escape_line(row).rstrip()}" for row in shown)]
    return "\n".join(lines)


def _format_outcome(outcome: PublishOutcome, entry: HistoryEntry, current: Current) -> tuple[str, ...]:
    is_current = current.get((outcome.stack, outcome.cluster)) == entry.revision
    when = f"{outcome.at.replace('T', ' ').removesuffix('Z')[:16]} {outcome.by}".strip()
    notes = [text for text in ("changed it last" if is_current else "", outcome.message) if text]
    return (outcome.stack, outcome.cluster, f"{outcome.sync}, {outcome.health}", when, "; ".join(notes))


def _history_data(entries: Sequence[HistoryEntry], current: Current) -> dict[str, Any]:
    return {
        "commits": [
            {
                "revision": entry.revision,
                "time": datetime.fromtimestamp(entry.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "author": entry.author,
                "subject": entry.subject,
                "inHistory": entry.in_history,
                "outcomes": [
                    {
                        "stack": outcome.stack,
                        "cluster": outcome.cluster,
                        "sync": outcome.sync,
                        "health": outcome.health,
                        "message": outcome.message,
                        "at": outcome.at,
                        "by": outcome.by,
                        "changedItLast": current.get((outcome.stack, outcome.cluster)) == entry.revision,
                    }
                    for outcome in entry.outcomes
                ],
            }
            for entry in entries
        ],
    }


def _format_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
