"""Limits of what one pass may take of the shared process: CPU time without a turn of the loop, and memory.

Passes put data of users through our code, so one that never ends or grows for ever is possible in spite of all bounds.
A pass that holds the loop is interrupted where it is, by the timer of the process's own CPU time: a process that was
stopped or a machine that is busy with other processes is no reason. And memory ends a little before the container's
limit, where the pass that asks for more gets MemoryError, and not where the kernel ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

HELD_SECONDS = 4  # of CPU time for which a pass may hold the loop
REST_SECONDS = 300.0  # before a pass that held it may begin again, whatever changes
RESERVED = 48 << 20  # bytes of a container's memory that passes cannot have: code, sockets, the kernel's part
STACK = 1 << 20  # bytes for a thread; the system's default is eight times as much, and counts as used
LIMIT = Path("/sys/fs/cgroup/memory.max")

in_pass: ContextVar[bool] = ContextVar("in_pass", default=False)


class HeldError(Exception):
    """Error for a pass that held the whole process."""

    def __init__(self) -> None:
        super().__init__(f"it held the process for {HELD_SECONDS} s, and rests for {REST_SECONDS:g} s")


@contextlib.contextmanager
def interrupting(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Interrupt passes that hold the loop, while the block lasts. Only in the main thread, whose loop it is."""
    ticks = 0

    def note_turn() -> None:
        nonlocal ticks
        ticks = 0

    def tick(number: int, frame: FrameType | None) -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 1:
            loop.call_soon_threadsafe(note_turn)
        elif ticks > HELD_SECONDS and in_pass.get():
            ticks = 1  # `note_turn` is on its way
            raise HeldError

    before = signal.signal(signal.SIGPROF, tick)
    signal.setitimer(signal.ITIMER_PROF, 1.0, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def limit_memory(most: int | None = None) -> int | None:
    """Limit the process's memory to `most` bytes, or to what the container may have, and return the limit.

    Return None and set no limit if neither is known.
    """
    if most is None:
        most = _container_limit()
    if most is None:
        return None
    threading.stack_size(STACK)
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    return most


def _container_limit() -> int | None:
    """Return the container's memory limit less `RESERVED`; None if it has none."""
    try:
        text = LIMIT.read_text().strip()
    except OSError:
        return None
    return max(int(text) - RESERVED, RESERVED) if text.isdecimal() else None
