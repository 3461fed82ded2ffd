"""`fleet watch`: the fleet as it changes. A table at a terminal, a line per event elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.flags import INTERVAL, Seconds, choice_options

if TYPE_CHECKING:
    from fleet.cli.sight import View
    from fleet.sync.watch import Sight, Watcher


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
    from fleet.cli.sight import View
    from fleet.sync.watch import happened

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
