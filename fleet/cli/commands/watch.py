""".

`fleet watch`: the fleet as it changes. A table at a terminal, a line per event elsewhere.

How the fleet at one moment looks at a terminal: stacks × clusters, and below it what happened last.

It always fits: what is not well comes first, and the rest is counted where there is no room for it. Where clusters are
too many to stand side by side, each stack in each cluster has a line of its own.
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

from fleet.cli.options import INTERVAL, Seconds, choice_options

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from fleet.sync.observe import Observed, Sight, Watcher


@click.command()
@choice_options
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
    from fleet.evaluate import evaluate
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.observe import Watcher
    from fleet.sync.source import working_tree
    from fleet.sync.targets import check_cluster

    with working_tree() as files:
        known = evaluate(files.repository, stacks=()).check().clusters
    chosen = [check_cluster(known, name) for name in clusters] or list(known)
    watcher = Watcher(chosen, stacks, kubeconfig, RepositoryOwnership(files.identity))
    try:
        asyncio.run(asyncio.wait_for(_watch(watcher, every, until_healthy=until_healthy), timeout))
    except TimeoutError:
        if until_healthy:
            raise FleetTimeoutError(f"not everything was healthy after {timeout or 0:.0f} s") from None
    except KeyboardInterrupt:
        pass
    return 0


async def _watch(watcher: Watcher, every: float, *, until_healthy: bool) -> None:
    from fleet.sync.observe import happened

    before: Sight | None = None
    view = View([one.name for one in watcher.clusters]) if _at_terminal() else None
    with _screen(view) if view else nullcontext():
        async for sight in watcher.sights(every=every):
            for line in happened(before, sight):
                _tell(line, view)
            if view:
                view.sight = sight
            before = sight
            if until_healthy and sight.stacks and sight.is_well:
                return


def _screen(view: View) -> AbstractContextManager[Any]:
    from rich.console import Console
    from rich.live import Live

    return Live(view, console=Console(), refresh_per_second=4)


def _tell(line: str, view: View | None) -> None:
    from fleet.plan.views.escape import escape_line

    said = f"{datetime.now(UTC).strftime('%H:%M:%S')}  {escape_line(line)}"
    if view:
        view.events.append(said)
    else:
        click.echo(said)
        sys.stdout.flush()


def _at_terminal() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


MOST_EVENTS = 12
GAP = 3  # between two columns
COLOURS = {"Healthy": "green", "Progressing": "yellow", "Missing": "red", "Degraded": "red"}


class Cell(NamedTuple):
    text: str
    style: str = ""


Row = list[Cell]


class View:
    """For rich: `sight` and `events` are what is shown from then on."""

    def __init__(self, clusters: Sequence[str]) -> None:
        self.sight: Sight | None = None
        self.events: deque[str] = deque(maxlen=MOST_EVENTS)
        self._clusters = clusters

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        if self.sight is None:
            yield Text("looking …")
            return
        height = console.size.height - len(self.events) - 1
        for row in table(self.sight, self._clusters, width=options.max_width, height=height):
            line = Text(no_wrap=True, overflow="ellipsis")
            for cell in row:
                line.append(*cell)
            yield line
        if self.events:
            yield Text("")
        for event in self.events:
            yield Text(event, style="dim", no_wrap=True, overflow="ellipsis")


def table(sight: Sight, clusters: Sequence[str], *, width: int, height: int) -> list[Row]:
    """Pure: lines of at most `height`, of which the first is the head."""
    head, rows = _side_by_side(sight, clusters)
    widths = _widths([head, *rows])
    if sum(widths) > width:
        head, rows = _one_below_the_other(sight, clusters)
        widths = _widths([head, *rows])
    room = max(height - 1, 2)
    hidden = rows[room - 1 :] if len(rows) > room else []
    shown = [_padded(row, widths) for row in [head, *rows[: len(rows) - len(hidden)]]]
    return [*shown, [Cell(f"… and {len(hidden)} more", "dim")]] if hidden else shown


def _side_by_side(sight: Sight, clusters: Sequence[str]) -> tuple[Row, list[Row]]:
    """A line for each stack, those that are not well first, with a column for each cluster."""
    head = [Cell("STACK", "bold"), *(Cell(_title(name, sight), "bold") for name in clusters)]
    found = sight.stacks
    stacks = sorted({stack for stack, _ in found})
    stacks.sort(key=lambda stack: all(one.health == "Healthy" for (name, _), one in found.items() if name == stack))
    return head, [[Cell(stack), *(cell(found.get((stack, one))) for one in clusters)] for stack in stacks]


def _one_below_the_other(sight: Sight, clusters: Sequence[str]) -> tuple[Row, list[Row]]:
    pairs = [pair for pair in sorted(sight.stacks) if pair[1] in clusters]
    pairs.sort(key=lambda pair: sight.stacks[pair].health == "Healthy")
    head = [Cell("STACK", "bold"), Cell("CLUSTER", "bold"), Cell("")]
    return head, [[Cell(stack), Cell(_title(one, sight)), cell(sight.stacks[stack, one])] for stack, one in pairs]


def _title(cluster: str, sight: Sight) -> str:
    return cluster + (" (does not answer)" if cluster in sight.failed else "")


def cell(one: Observed | None) -> Cell:
    """What is said of a stack in a cluster, and its colour."""
    if one is None:
        return Cell("–", "dim")
    members = [each.members for each in one.objects if each.is_app and each.members]
    parts = [one.health, *members, one.revision[:8], "suspended" if one.suspended else ""]
    return Cell(" ".join(filter(None, parts)), COLOURS.get(one.health, ""))


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(len(one.text) for one in column) + GAP for column in zip(*rows, strict=True)]


def _padded(row: Row, widths: Sequence[int]) -> Row:
    return [Cell(one.text.ljust(width), one.style) for one, width in zip(row, widths, strict=True)]
