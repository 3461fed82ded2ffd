"""`fleet watch`: the fleet as it changes. A table at a terminal, a line per event elsewhere.

The table shows stacks × clusters, and below it the last events. It always fits: what is not healthy comes first, and
the rest is counted where there is no room for it. Where clusters are too many to stand side by side, each stack in each
cluster has a line of its own. Clusters are only read.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fleet.cli.clusters import select_clusters
from fleet.cli.options import INTERVAL, Seconds, selection_options

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from fleet.sync.observe import FleetSnapshot, FleetWatcher, StackStatus


@click.command()
@selection_options
@click.option("--every", type=INTERVAL, default="2s", show_default=True, help="How long to wait between two looks.")
@click.option("--until-healthy", is_flag=True, help="End, with exit code 0, once every stack is healthy everywhere.")
@click.option("--timeout", type=Seconds(), help="End after so long; with --until-healthy that is exit code 9.")
def watch(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    every: float,
    until_healthy: bool,
    timeout: float | None,
) -> int:
    """Show every stack in every cluster and what happens to it: health, revisions, members, warnings. Ctrl-C ends it.

    Without a terminal it is a line for each thing that happens, beginning with how everything is. Nothing is written.

    \b
    fleet watch --stack orders
    fleet watch --until-healthy --timeout 10m
    """
    import asyncio

    from fleet.errors import TimeoutError as FleetTimeoutError
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.observe import FleetWatcher
    from fleet.sync.source import read_working_tree

    with read_working_tree() as files:
        selected = select_clusters(files.repository, clusters)
    watcher = FleetWatcher(selected, stacks, kubeconfig, RepositoryOwnership(files.identity))
    try:
        asyncio.run(asyncio.wait_for(_run_watch(watcher, every, until_healthy=until_healthy), timeout))
    except TimeoutError:
        if until_healthy:
            raise FleetTimeoutError(f"not everything was healthy after {timeout or 0:.0f} s") from None
    except KeyboardInterrupt:
        pass
    return 0


async def _run_watch(watcher: FleetWatcher, every: float, *, until_healthy: bool) -> None:
    """Show snapshots and events until the user ends it, or all is healthy with `until_healthy`."""
    from fleet.sync.observe import describe_changes

    before: FleetSnapshot | None = None
    view = WatchView([cluster.name for cluster in watcher.clusters]) if _is_at_terminal() else None
    with _open_screen(view) if view else nullcontext():
        async for sight in watcher.sights(every=every):
            for line in describe_changes(before, sight):
                _show_event(line, view)
            if view:
                view.sight = sight
            before = sight
            if until_healthy and sight.stacks and sight.is_well:
                return


def _open_screen(view: WatchView) -> AbstractContextManager[Any]:
    from rich.console import Console
    from rich.live import Live

    return Live(view, console=Console(), refresh_per_second=4)


def _show_event(line: str, view: WatchView | None) -> None:
    """Add an event to the view, or print it where there is none."""
    from fleet.plan.views.escape import escape_line

    event = f"{datetime.now(UTC).strftime('%H:%M:%S')}  {escape_line(line)}"
    if view:
        view.events.append(event)
    else:
        click.echo(event)
        sys.stdout.flush()


def _is_at_terminal() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


MOST_EVENTS = 12
GAP = 3  # between two columns
COLOURS = {"Healthy": "green", "Progressing": "yellow", "Missing": "red", "Degraded": "red"}


class Cell(NamedTuple):
    text: str
    style: str = ""


Row = list[Cell]


class WatchView:
    """What rich draws at a terminal: `sight` and `events`, which the command sets."""

    def __init__(self, clusters: Sequence[str]) -> None:
        self.sight: FleetSnapshot | None = None
        self.events: deque[str] = deque(maxlen=MOST_EVENTS)
        self._clusters = clusters

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        if self.sight is None:
            yield Text("looking …")
            return
        height = console.size.height - len(self.events) - 1
        for row in format_rows(self.sight, self._clusters, width=options.max_width, height=height):
            line = Text(no_wrap=True, overflow="ellipsis")
            for cell in row:
                line.append(*cell)
            yield line
        if self.events:
            yield Text("")
        for event in self.events:
            yield Text(event, style="dim", no_wrap=True, overflow="ellipsis")


def format_rows(sight: FleetSnapshot, clusters: Sequence[str], *, width: int, height: int) -> list[Row]:
    """Return at most `height` rows, of which the first is the head, in columns of equal width."""
    head, rows = _arrange_by_stack(sight, clusters)
    widths = _measure_columns([head, *rows])
    if sum(widths) > width:
        head, rows = _arrange_by_placement(sight, clusters)
        widths = _measure_columns([head, *rows])
    room = max(height - 1, 2)
    hidden = rows[room - 1 :] if len(rows) > room else []
    shown = [_pad_row(row, widths) for row in [head, *rows[: len(rows) - len(hidden)]]]
    return [*shown, [Cell(f"… and {len(hidden)} more", "dim")]] if hidden else shown


def _arrange_by_stack(sight: FleetSnapshot, clusters: Sequence[str]) -> tuple[Row, list[Row]]:
    """Return a row for each stack, those that are not healthy first, with a column for each cluster."""
    head = [Cell("STACK", "bold"), *(Cell(_format_cluster(name, sight), "bold") for name in clusters)]
    stacks = sorted({stack for stack, _ in sight.stacks})
    unhealthy = {stack for (stack, _), status in sight.stacks.items() if status.health != "Healthy"}
    stacks.sort(key=lambda stack: stack not in unhealthy)
    return head, [
        [Cell(stack), *(_format_status(sight.stacks.get((stack, cluster))) for cluster in clusters)] for stack in stacks
    ]


def _arrange_by_placement(sight: FleetSnapshot, clusters: Sequence[str]) -> tuple[Row, list[Row]]:
    """Return a row for each stack in each cluster, those that are not healthy first."""
    pairs = [pair for pair in sorted(sight.stacks) if pair[1] in clusters]
    pairs.sort(key=lambda pair: sight.stacks[pair].health == "Healthy")
    head = [Cell("STACK", "bold"), Cell("CLUSTER", "bold"), Cell("")]
    return head, [
        [Cell(stack), Cell(_format_cluster(cluster, sight)), _format_status(sight.stacks[stack, cluster])]
        for stack, cluster in pairs
    ]


def _format_cluster(cluster: str, sight: FleetSnapshot) -> str:
    return cluster + (" (does not answer)" if cluster in sight.failed else "")


def _format_status(status: StackStatus | None) -> Cell:
    """Return the health, members and revision of a stack in a cluster, in the colour of its health."""
    if status is None:
        return Cell("–", "dim")
    members = [item.members for item in status.objects if item.is_app and item.members]
    parts = [status.health, *members, status.revision[:8], "suspended" if status.suspended else ""]
    return Cell(" ".join(filter(None, parts)), COLOURS.get(status.health, ""))


def _measure_columns(rows: Sequence[Row]) -> list[int]:
    return [max(len(cell.text) for cell in column) + GAP for column in zip(*rows, strict=True)]


def _pad_row(row: Row, widths: Sequence[int]) -> Row:
    return [Cell(cell.text.ljust(width), cell.style) for cell, width in zip(row, widths, strict=True)]
