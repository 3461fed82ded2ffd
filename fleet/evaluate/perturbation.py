"""Differences between the first and the second evaluation, so that code which depends on them is found.

The second one runs in another process, so object addresses and random numbers differ by themselves, and the parent
starts it with another hash seed (the order of sets) and another time zone (see `pool.py`). This module changes the
clock, the order of directory listings and process numbers (in a sandbox every worker is the first process). They would
be equal seconds later on this machine, and differ on another machine or another day.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

AHEAD = 400 * 86_400 + 3_599  # another year, month, day and second
SEED, TIME_ZONE = "0", "UTC0"
OTHER_SEED, OTHER_TIME_ZONE = "4211", "FLEET-23:59:59"  # almost a day ahead: today is another day for local time too


def everything() -> None:
    """Change the clock and the directory listings of this zygote and of all its workers."""
    _shift_clock()
    _reverse_listings()


def _shift_clock() -> None:
    now, now_ns, gmtime, localtime = time.time, time.time_ns, time.gmtime, time.localtime

    def shift(convert: Callable[[float], time.struct_time]) -> Callable[..., time.struct_time]:
        return lambda seconds=None: convert(now() + AHEAD if seconds is None else seconds)

    time.time = lambda: now() + AHEAD
    time.time_ns = lambda: now_ns() + AHEAD * 10**9
    time.gmtime = shift(gmtime)
    time.localtime = shift(localtime)


def _reverse_listings() -> None:
    listdir, scandir = os.listdir, os.scandir

    class ReversedEntries:
        """An iterator as `os.scandir` returns it: it can be closed and used in a with statement."""

        def __init__(self, entries: Iterator[Any]) -> None:
            self._entries = entries

        def __iter__(self) -> Iterator[Any]:
            return self._entries

        def __next__(self) -> Any:
            return next(self._entries)

        def close(self) -> None:
            """Forget the entries that were not read."""
            self._entries = iter(())

        def __enter__(self) -> ReversedEntries:
            return self

        def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
            self.close()

    def scandir_reversed(path: Any = ".") -> Any:
        with scandir(path) as entries:
            return ReversedEntries(reversed(list(entries)))

    os.listdir = lambda path=".": listdir(path)[::-1]  # type: ignore[assignment]
    os.scandir = scandir_reversed


def renumber() -> None:
    """Change the process numbers that a worker reads; the zygote needs the true ones."""
    getpid, getppid = os.getpid, os.getppid
    os.getpid = lambda: getpid() + 1
    os.getppid = lambda: getppid() + 1
