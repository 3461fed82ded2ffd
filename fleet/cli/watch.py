"""`fleet watch`: the fleet as it changes. A table at a terminal, a line per event elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.flags import Seconds, choice_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fleet.sync.observe import Observed
    from fleet.sync.watch import Sight, Watcher

MOST_EVENTS = 12
COLOURS = {"Healthy": "green", "Progressing": "yellow", "Missing": "red", "Degraded": "red"}


@click.command()
@choice_options
@click.option("--every", type=Seconds(), default="2s", show_default=True, help="How long to wait between two looks.")
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
    """
    import asyncio

    from fleet.errors import TimeoutError as FleetTimeoutError
    from fleet.evaluate import evaluate
    from fleet.plan.claim import Claim
    from fleet.sync.choice import check_cluster
    from fleet.sync.source import working_tree
    from fleet.sync.watch import Watcher

    with working_tree() as files:
        known = evaluate(files.repository, stacks=()).check().clusters
    chosen = [check_cluster(known, name) for name in clusters] or list(known)
    watcher = Watcher(chosen, stacks, kubeconfig, Claim(files.identity))
    try:
        asyncio.run(asyncio.wait_for(_watch(watcher, every, until_healthy=until_healthy), timeout))
    except TimeoutError:
        if until_healthy:
            raise FleetTimeoutError(f"not everything was healthy after {timeout or 0:.0f} s") from None
    except KeyboardInterrupt:
        pass
    return 0


async def _watch(watcher: Watcher, every: float, *, until_healthy: bool) -> None:
    from fleet.sync.watch import happened

    before: Sight | None = None
    view = _View([one.name for one in watcher.clusters]) if _at_terminal() else None
    with view.screen() if view else nullcontext():
        async for sight in watcher.sights(every=every):
            for line in happened(before, sight):
                _tell(line, view)
            if view:
                view.sight = sight
            before = sight
            if until_healthy and sight.stacks and sight.is_well:
                return


def _tell(line: str, view: _View | None) -> None:
    from fleet.plan.visible import visible

    said = f"{datetime.now(UTC).strftime('%H:%M:%S')}  {visible(line)}"
    if view:
        view.events.append(said)
    else:
        click.echo(said)
        sys.stdout.flush()


def _at_terminal() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


class _View:
    """Stacks by clusters, and below it what happened last."""

    def __init__(self, clusters: Sequence[str]) -> None:
        self.sight: Sight | None = None
        self.events: deque[str] = deque(maxlen=MOST_EVENTS)
        self._clusters = clusters

    def screen(self) -> AbstractContextManager[Any]:
        from rich.console import Console
        from rich.live import Live

        return Live(self, console=Console(), refresh_per_second=4)

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if self.sight is None:
            return Text("looking …")
        found = self.sight.stacks
        table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
        table.add_column("STACK")
        for cluster in self._clusters:
            table.add_column(cluster + (" (does not answer)" if cluster in self.sight.failed else ""))
        for stack in sorted({stack for stack, _ in found}):
            cells = [_cell(found.get((stack, cluster))) for cluster in self._clusters]
            table.add_row(Text(stack), *(Text(text, style=style) for text, style in cells))
        return Group(
            table, Text(""), *(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in self.events)
        )


def _cell(one: Observed | None) -> tuple[str, str]:
    """What is said of a stack in a cluster, and its colour."""
    if one is None:
        return "–", "dim"
    members = [each.members for each in one.objects if each.is_app and each.members]
    parts = [one.health, *members, one.revision[:8], "suspended" if one.suspended else ""]
    return " ".join(filter(None, parts)), COLOURS.get(one.health, "")
