"""Namespaces: rooms of their own for users, network, ipc, host name, mounts and processes.

The zygote enters the first four once and forks all workers there. Mounts and process numbers are each worker's own:
it is the first process of its room, and when it ends the kernel ends whoever is left inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

from fleet.evaluate.sandbox import kernel, view
from fleet.evaluate.sandbox.level import Layer

_MOUNT, _UTS, _IPC, _USER, _PID, _NET = 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
NOBODY = 65534
HOST_NAME = b"sandbox"


def enter(layers: frozenset[Layer]) -> None:
    """For a process without threads, and all that it forks."""
    user, group = os.geteuid(), os.getegid()
    with contextlib.suppress(PermissionError):  # only root has the right, and so others' groups
        os.setgroups([])
    wanted = _USER | _UTS | _MOUNT
    wanted |= _NET if Layer.NET in layers else 0
    wanted |= _IPC if Layer.IPC in layers else 0
    kernel.call("unshare", wanted)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {group} 1")
    kernel.call("sethostname", HOST_NAME, len(HOST_NAME))
    view.make_private()


def fork(layers: frozenset[Layer]) -> int:
    """As `os.fork`, but the child has mounts and process numbers of its own. For a process without threads."""
    wanted = _MOUNT if Layer.VIEW in layers else 0
    wanted |= _PID if Layer.PID in layers else 0
    if not wanted:
        return os.fork()
    # One call for both: with unshare() there would be a process in between, and another copy of all memory.
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    try:
        pid = kernel.clone(wanted | signal.SIGCHLD)
    except OSError:
        python.PyOS_AfterFork_Parent()
        raise
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid
