"""Progress of long work: one line that changes on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

_LINE = threading.Lock()  # the one line of a terminal that is written over
LEAST_SHARE = 0.05  # the part of the work after which its pace says something


class Progress:
    """Progress of one piece of work: `with Progress("building kubernetes") as p: p.update(done, total, "a file")`."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self.title = title
        self._terminal = sys.stderr.isatty()
        self._live = False  # whether the line on the terminal is this one's
        self._quiet = quiet
        self._started = time.monotonic()
        self._printed = 0.0
        self._width = 0

    def __enter__(self) -> Progress:
        self._live = self._terminal and not self._quiet and _LINE.acquire(blocking=False)
        self._say(f"{self.title} …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say(f"{self.title}: {'failed' if error else 'done'} in {self._elapsed()}", last=True)
        if self._live:
            _LINE.release()

    def update(self, done: int, total: int, detail: str = "") -> None:
        """Show how much of the work is done; `total` is 0 where it is not known."""
        # Elsewhere than on a terminal a line each half minute shows that it lives, without filling a log.
        pause = 0.1 if self._live else 30
        if time.monotonic() - self._printed >= pause:
            share = f"{done}/{total}" if total else str(done)
            remaining = describe_time_left(time.monotonic() - self._started, done, total)
            self._say(f"{self.title}: {share} · {self._elapsed()}{remaining} · {detail}")

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"

    def _say(self, text: str, *, last: bool = False) -> None:
        if self._quiet:
            return
        self._printed = time.monotonic()
        if self._terminal and not self._live and not last:
            return
        if self._terminal:
            text = text[:118]
            width = self._width if self._live else 118  # over what another one's line says
            sys.stderr.write("\r" + text.ljust(width) + ("\n" if last else ""))
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()


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
