"""Which process holds a Lease, so precisely that another one on the same machine can tell that it is dead.

A killed sync should not block the next for the length of a Lease. Machine (boot), pid namespace, pid and start time
together name one process for ever; whoever cannot judge them (another machine or container) waits for the time.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

from fleet.kube.person import user


def name() -> str:
    """For people: who and where."""
    return f"{user()}@{socket.gethostname()} (pid {os.getpid()})"


def identity() -> str:
    """For programs: this process and no other."""
    return f"{_machine()}/{os.getpid()}/{psutil.Process().create_time():.2f}"


def is_dead(other: str) -> bool:
    """True only when it is certain: the process was on this machine and is gone."""
    machine, _, rest = other.partition("/")
    pid, _, started = rest.partition("/")
    if machine != _machine() or not pid.isdigit():
        return False
    try:
        process = psutil.Process(int(pid))
        return f"{process.create_time():.2f}" != started or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def _machine() -> str:
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists() and namespace.exists():
        return f"{boot.read_text().strip()}-{namespace.stat().st_ino}"
    return f"{socket.gethostname()}-{psutil.boot_time():.0f}"
