"""What a person sees while a run goes on, on stderr: a live table at a terminal, a line per event elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 30


class Progress(Protocol):
    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        """Say where a stack in a cluster has come to; the same phase again only replaces the detail."""


class Lines:
    """For logs and pipes: a line when a phase begins, nothing for what only moves."""

    def __init__(self) -> None:
        self._phases: dict[tuple[str, str], str] = {}

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        if self._phases.get((stack, cluster)) != phase:
            self._phases[stack, cluster] = phase
            print(f"{stack} on {cluster}: {phase}{f' ({detail})' if detail else ''}", file=sys.stderr, flush=True)


class Silent:
    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        pass


class Live:
    """For terminals: a row per stack and cluster, those that need attention first."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], tuple[str, str, float]] = {}

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        self._rows[stack, cluster] = (phase, detail, time.monotonic())

    def __rich__(self) -> Table:
        from rich.spinner import Spinner  # noqa: PLC0415 - only at a terminal
        from rich.table import Table  # noqa: PLC0415

        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        rows = sorted(self._rows.items(), key=lambda row: (row[1][0] in DONE, row[0]))
        for (stack, cluster), (phase, detail, _) in rows[:MOST_ROWS]:
            mark = MARKS.get(phase) or Spinner("dots")
            table.add_row(mark, stack, cluster, phase, detail[:100])
        if len(rows) > MOST_ROWS:
            table.add_row("", f"… and {len(rows) - MOST_ROWS} more", "", "", "")
        return table


MARKS = {"done": "[green]✓[/]", "healthy": "[green]✓[/]", "failed": "[red]✗[/]", "no changes": "[dim]=[/]"}
DONE = frozenset(MARKS)


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[Progress]:
    """The view that fits: nothing, lines, or a live table (a terminal that is no CI and not dumb)."""
    if quiet:
        yield Silent()
        return
    if not at_terminal():
        yield Lines()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live as Screen  # noqa: PLC0415

    view = Live()
    with Screen(view, console=Console(stderr=True), refresh_per_second=8, transient=True):
        yield view


def at_terminal() -> bool:

    return sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
