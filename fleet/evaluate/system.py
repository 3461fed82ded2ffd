"""What the operating system offers to hold processes together. Linux has it all; elsewhere the pipes have to do.

subreaper      processes that a worker leaves behind become children of the zygote, which ends them
die_with       a process is killed by the kernel when the one that started it dies
children       the processes whose parent is this one, each with its session
output_of      which of several children of one parent a process comes from that left its session
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def become_subreaper() -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int, life: int) -> None:
    """To be called in a new child of `parent`, who alone holds the other end of the pipe `life`."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # It may have died before the kernel knew. In a pid namespace of our own it has no number to be known by.
    if os.getppid() not in (parent, 0) or select.select([life], [], [], 0)[0]:
        os._exit(1)


def die_first() -> None:
    """When memory runs out, of a group or of the machine: this process and its children, before whoever started it."""
    if LINUX:
        with contextlib.suppress(OSError):  # a wish: whoever is taken instead, no evaluation succeeds by it
            Path("/proc/self/oom_score_adj").write_text("1000")


def output_of(pid: int) -> int:
    """What a process writes to as its output, as a number that others who write there have too; 0 if not known."""
    with contextlib.suppress(OSError):  # it has ended, or closed it, or is not ours to look at
        return Path(f"/proc/{pid}/fd/1").stat().st_ino
    return 0


@dataclass(frozen=True, slots=True)
class Child:
    pid: int
    session: int
    alive: bool


def children() -> list[Child]:
    if not LINUX:
        return []
    me = os.getpid()
    pids = Path(f"/proc/{me}/task/{me}/children").read_text().split()
    found = []
    for pid in pids:
        try:
            # "pid (name) state parent group session …", and a name may hold anything, also ")"
            state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:4]
        except OSError:
            continue
        found.append(Child(int(pid), int(session), state not in {"Z", "X"}))
    return found
