"""Progress of long work: on a terminal a row for each piece that goes on, a few plain lines elsewhere.

A terminal's rows are drawn by rich, which is loaded when the first of them begins. Above them stays a line for each
piece that has ended, and whatever else is printed meanwhile.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Rows
    from rich.progress import TaskID

LEAST_SHARE = 0.05  # the part of the work after which its pace says something
PAUSE = 30  # seconds between two lines of a log: enough to see that it lives


class BuildProgress:
    """Progress of one piece of work: `with BuildProgress("building etcd") as p: p.update(done, total, "a file")`."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self.title = title
        self._quiet = quiet
        self._row: TaskID | None = None  # on a terminal
        self._started = time.monotonic()
        self._printed = 0.0

    def __enter__(self) -> BuildProgress:
        if not self._quiet and is_terminal():
            self._row = _SCREEN.add_row(self.title)
        else:
            self._print(f"{self.title} …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        text = f"{self.title}: {'failed' if error else 'done'} in {self._elapsed_text()}"
        if self._row is not None:
            _SCREEN.end_row(self._row, text)
        else:
            self._print(text)

    def update(self, done: int, total: int, detail: str = "") -> None:
        """Show how much of the work is done; `total` is 0 where it is not known."""
        share = f"{done}/{total}" if total else str(done)
        remaining = describe_time_left(time.monotonic() - self._started, done, total)
        if self._row is not None:
            # The time left comes first: what does not fit into the row is cut off.
            details = (remaining.removeprefix(", "), share, detail)
            _SCREEN.update_row(self._row, done, total, " · ".join(part for part in details if part))
        elif time.monotonic() - self._printed >= PAUSE:
            self._print(f"{self.title}: {share} · {self._elapsed_text()}{remaining} · {detail}")

    def _elapsed_text(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"

    def _print(self, text: str) -> None:
        if not self._quiet:
            self._printed = time.monotonic()
            print(text, file=sys.stderr, flush=True)


class _Screen:
    """The rows of a terminal: they begin with the first piece of work and are gone after the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: Rows | None = None

    def add_row(self, title: str) -> TaskID:
        with self._lock:
            if self._rows is None:
                self._rows = _make_rows()
                self._rows.start()
            return self._rows.add_task(title, total=None, detail="")

    def update_row(self, row: TaskID, done: int, total: int, detail: str) -> None:
        if self._rows:
            self._rows.update(row, completed=done, total=total or None, detail=detail)

    def end_row(self, row: TaskID, text: str) -> None:
        """Take a row away and leave a line in its place."""
        with self._lock:
            if self._rows is None:
                return
            self._rows.remove_task(row)
            self._rows.refresh()
            if not self._rows.tasks:
                self._rows.stop()
            self._rows.console.print(text, markup=False, highlight=False, soft_wrap=True)
            if not self._rows.tasks:
                self._rows = None


_SCREEN = _Screen()


def is_terminal() -> bool:
    """Return whether rows can be drawn on standard error."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _make_rows() -> Rows:
    from rich.console import Console  # noqa: PLC0415 - only at a terminal
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Rows  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    return Rows(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn(
            "{task.fields[detail]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
        console=Console(stderr=True),
        expand=True,
        transient=True,
    )


def describe_time_left(elapsed: float, done: int, total: int) -> str:
    """Return how long the rest takes at the pace so far, in words; "" while that cannot be said."""
    if not total or done >= total or done < total * LEAST_SHARE:
        return ""
    seconds = elapsed * (total - done) / done
    return (
        f", about {seconds / 60:.0f} min left"
        if seconds >= 90
        else f", about {max(1, round(seconds / 10)) * 10} s left"
    )
