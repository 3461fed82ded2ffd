"""What long work shows while it runs: one line that changes on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType


class Progress:
    """`with Progress("building kubernetes") as progress: progress.update(done, total, "now this")`"""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self.title = title
        self._live = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._started = time.monotonic()
        self._printed = 0.0
        self._width = 0

    def __enter__(self) -> Progress:
        self._say(f"{self.title} …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say(f"{self.title}: {'failed' if error else 'done'} in {self._elapsed()}", last=True)

    def update(self, done: int, total: int, detail: str = "") -> None:
        # Elsewhere than on a terminal a line each half minute shows that it lives, without filling a log.
        pause = 0.1 if self._live else 30
        if time.monotonic() - self._printed >= pause:
            share = f"{done}/{total}" if total else str(done)
            self._say(f"{self.title}: {share} · {self._elapsed()} · {detail}")

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"

    def _say(self, text: str, *, last: bool = False) -> None:
        if self._quiet:
            return
        self._printed = time.monotonic()
        if self._live:
            text = text[:118]
            sys.stderr.write("\r" + text.ljust(self._width) + ("\n" if last else ""))
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
