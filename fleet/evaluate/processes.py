"""Means of the operating system to hold processes together. Linux has all of them; elsewhere the pipes must suffice.

subreaper      processes that a worker leaves behind become children of the zygote, which ends them
die_with       the kernel kills a process when the process that started it dies
children       the processes whose parent is this one, each with its session
mark           a number that a process and all its descendants keep, whatever they leave, close or execute
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
    """Have the kernel make orphans below this process its children."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int, life: int) -> None:
    """Have the kernel kill this process when `parent` dies; exit at once if it is dead already.

    To be called in a new child of `parent`, which alone holds the other end of the pipe `life`.
    """
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the call above. In a pid namespace of its own, a child sees it as number 0.
    if os.getppid() not in (parent, 0) or select.select([life], [], [], 0)[0]:
        os._exit(1)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process, which was just begun, when the thread that started it ends."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def die_first() -> None:
    """Have the kernel end this process and its children before the one that started it when memory runs out."""
    if LINUX:
        with contextlib.suppress(OSError):  # not essential: no evaluation succeeds because another process is ended
            Path("/proc/self/oom_score_adj").write_text("1000")


def mark_process(number: int) -> None:
    """Give this process and all its later descendants a number, which is 1 or more.

    The mark is the limit of a resource that only real-time processes use, and for them it is thousands of years. Limits
    are kept through fork, setsid and exec; lowering them needs no privilege, and every process may read them.
    """
    if LINUX:
        with contextlib.suppress(ValueError, OSError):  # a lower limit is in force already
            resource.setrlimit(resource.RLIMIT_RTTIME, (_UNMARKED - number, _UNMARKED - number))


def mark_of(pid: int) -> int:
    """Return the mark of a process; 0 if it has none or has ended."""
    with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended
        limits = Path(f"/proc/{pid}/limits").read_text()
        number = _UNMARKED - int(limits.partition(_MARK)[2].split()[1])
        return number if 0 < number < _MARKS else 0
    return 0


@dataclass(frozen=True, slots=True)
class Child:
    """A child of this process."""

    pid: int
    session: int
    started: int  # by the kernel's clock: together with the pid it identifies a process
    alive: bool


def children() -> list[Child]:
    """Return the children of this process; none where the system cannot tell."""
    if not LINUX:
        return []
    me = os.getpid()
    pids = Path(f"/proc/{me}/task/{me}/children").read_text().split()
    found_children = []
    for pid in pids:
        try:
            # "pid (name) state parent group session …", and a name may hold anything, also ")"
            columns = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        found_children.append(Child(int(pid), int(columns[3]), int(columns[19]), columns[0] not in {"Z", "X"}))
    return found_children
