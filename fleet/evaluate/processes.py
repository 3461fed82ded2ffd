"""What the operating system offers to hold processes together. Linux has it all; elsewhere the pipes have to do.

subreaper      processes that a worker leaves behind become children of the zygote, which ends them
die_with       a process is killed by the kernel when the one that started it dies
children       the processes whose parent is this one, each with its session
mark           a number that a process and all that come from it keep, whatever they leave, close or become
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_UNMARKED, _MARKS = 1 << 60, 1 << 32
_MARK = "Max realtime timeout"


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


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process, which was just begun, when the thread that started it ends."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def die_first() -> None:
    """When memory runs out, of a group or of the machine: this process and its children, before whoever started it."""
    if LINUX:
        with contextlib.suppress(OSError):  # a wish: whoever is taken instead, no evaluation succeeds by it
            Path("/proc/self/oom_score_adj").write_text("1000")


def mark_process(number: int) -> None:
    """This process, and whatever will come from it; from 1 on.

    It is the limit of a resource that only processes in real time use, and for them it is thousands of years. Limits
    are kept through fork, setsid and exec, need no right to be lowered, and everybody may read them.
    """
    if LINUX:
        with contextlib.suppress(ValueError, OSError):  # a lower one is in force already
            resource.setrlimit(resource.RLIMIT_RTTIME, (_UNMARKED - number, _UNMARKED - number))


def mark_of(pid: int) -> int:
    """0 if it has none that is known."""
    with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended
        limits = Path(f"/proc/{pid}/limits").read_text()
        number = _UNMARKED - int(limits.partition(_MARK)[2].split()[1])
        return number if 0 < number < _MARKS else 0
    return 0


@dataclass(frozen=True, slots=True)
class Child:
    pid: int
    session: int
    started: int  # by the kernel's clock: with its number it is one process and no other
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
            about = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        found.append(Child(int(pid), int(about[3]), int(about[19]), about[0] not in {"Z", "X"}))
    return found
