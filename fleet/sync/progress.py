"""Progress of a run as the user sees it on stderr: a live table at a terminal, a line per event elsewhere, or nothing.

A service shows none: it reports reconciles, not every step of them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 30
MARKS = {"done": "[green]✓[/]", "failed": "[red]✗[/]", "no changes": "[dim]=[/]"}
ENDED = frozenset(MARKS)
SILENCE_SECONDS = 30.0
QUIET_PHASES = frozenset({"looking", "no changes", "done", "failed"})  # shown by the result, or not worth a line


class Progress(Protocol):
    """Interface of what shows the progress of a run."""

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        """Show the phase of a stack in a cluster; the same phase again only replaces the detail."""

    def say(self, text: str) -> None:
        """Print a part of the result to stdout, above a live table."""


class LineProgress:
    """Progress for logs and pipes: a line when a phase begins, and one after each half minute of silence.

    Details that only change within a phase are not printed.
    """

    def __init__(self, *, prints_phases: bool = True) -> None:
        self._prints_phases = prints_phases
        self._phases: dict[tuple[str, str], str] = {}
        self._at_work: dict[tuple[str, str], str] = {}
        self._begun = self._printed = time.monotonic()
        self._ended = threading.Event()

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        line = f"{stack} on {cluster}: {phase}{f' ({detail})' if detail else ''}"
        if phase in ENDED:
            self._at_work.pop((stack, cluster), None)
        else:
            self._at_work[stack, cluster] = line
        if self._prints_phases and phase not in QUIET_PHASES and self._phases.get((stack, cluster)) != phase:
            self._phases[stack, cluster] = phase
            self._print(line)

    def say(self, text: str) -> None:
        print(text, flush=True)
        self._printed = time.monotonic()

    def still(self, now: float) -> str:
        """Return the line for half a minute of silence; "" before that, or when no stack is at work."""
        at_work = list(self._at_work.values())
        if not at_work or now - self._printed < SILENCE_SECONDS:
            return ""
        more = f", and {len(at_work) - 1} more" if len(at_work) > 1 else ""
        return f"still at work after {now - self._begun:.0f} s: {at_work[0]}{more}"

    def start(self) -> None:
        if self._prints_phases:
            threading.Thread(target=self._break_silence, daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _break_silence(self) -> None:
        while not self._ended.wait(1):
            if line := self.still(time.monotonic()):
                self._print(line)

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        self._printed = time.monotonic()


class LiveProgress:
    """Progress for terminals: a row per stack and cluster, those still at work first."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], tuple[str, str]] = {}
        self._spinners: dict[tuple[str, str], Any] = {}
        self._screen: Any = None

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        self._rows[stack, cluster] = (phase, detail)

    def say(self, text: str) -> None:
        self.stop()
        print(text, flush=True)
        self.start()

    def start(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only at a terminal
        from rich.live import Live as Screen  # noqa: PLC0415

        # A new screen each time: a restarted one erases as many lines as it had, whatever these show by now.
        self._screen = Screen(self, console=Console(stderr=True), refresh_per_second=8, transient=True)
        self._screen.start()

    def stop(self) -> None:
        self._screen.stop()

    def __rich__(self) -> Table:
        from rich.spinner import Spinner  # noqa: PLC0415 - only at a terminal
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        rows = sorted(self._rows.items(), key=lambda row: (row[1][0] in MARKS, row[0]))
        for key, (phase, detail) in rows[:MOST_ROWS]:
            mark = MARKS.get(phase) or self._spinners.setdefault(key, Spinner("dots"))
            # Messages of servers are text, never markup.
            table.add_row(mark, *key, phase, Text(detail, no_wrap=True, overflow="ellipsis"))
        if len(rows) > MOST_ROWS:
            table.add_row("", f"… and {len(rows) - MOST_ROWS} more")
        return table


@contextmanager
def show_progress(*, quiet: bool = False, lines: bool = True) -> Iterator[Progress]:
    """Show progress while the block runs: a table at a terminal that is no CI and not dumb, else lines, or nothing."""
    if quiet or not _at_terminal():
        view: LineProgress | LiveProgress = LineProgress(prints_phases=lines and not quiet)
    else:
        view = LiveProgress()
    view.start()
    try:
        yield view
    finally:
        view.stop()


def _at_terminal() -> bool:
    return sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


class NoProgress:
    """Progress that shows nothing."""

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        pass

    def say(self, text: str) -> None:
        pass
