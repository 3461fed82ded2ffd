"""Who and which process is acting.

Who is behind a change, for people who look at it later.

Which process holds a Lease, so precisely that another one on the same machine can tell that it is dead.

A killed sync should not block the next for the length of a Lease. Machine (boot), pid namespace, pid and start together
name one process for ever; whoever cannot judge them (another machine or container) waits for the time. The start is
counted from the boot where the kernel tells it: by the time of day, every process would seem to be another one as soon
as somebody sets the clock.
"""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

TOLD_BY = ("FLEET_USER", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")


def person_name() -> str:
    """In CI whoever started the job, whose name the machine does not know; else who is at this machine."""
    told = (os.environ.get(one, "").strip() for one in TOLD_BY)
    return next(filter(None, told), "") or f"{user()}@{socket.gethostname()}"


def program_name(name: str) -> str:
    """One that acts by itself, and where."""
    return f"{name}@{socket.gethostname()}"


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        return str(os.getuid())


_PROC = Path("/proc")
_TICKS = "ticks:"


def name() -> str:
    """For people: who and where."""
    return f"{user()}@{socket.gethostname()} (pid {os.getpid()})"


def identity() -> str:
    """For programs: this process and no other."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


def is_dead(other: str) -> bool:
    """True only when it is certain: the process was on this machine and is gone."""
    machine, _, rest = other.partition("/")
    pid, _, started = rest.partition("/")
    if machine != _machine() or not pid.isdigit():
        return False
    now = _started(int(pid))
    if not now:
        return True
    comparable = now.startswith(_TICKS) == started.startswith(_TICKS)  # an older fleet wrote it by the time of day
    return comparable and now != started


def start_tick(pid: int) -> str:
    """At which tick since the boot it began; "" for one that is no more, or only waited for, or where none is told."""
    try:
        # After the name, which may have spaces: the state is the 3rd of all fields, the start the 22nd.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _started(pid: int) -> str:
    """When it began, in the words of this machine; "" for a process that is no more, or is only waited for."""
    if (_PROC / "self").exists():
        tick = start_tick(pid)
        return f"{_TICKS}{tick}" if tick else ""
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return ""


def _machine() -> str:
    boot, namespace = _PROC / "sys/kernel/random/boot_id", _PROC / "self/ns/pid"
    if boot.exists() and namespace.exists():
        return f"{boot.read_text().strip()}-{namespace.stat().st_ino}"
    return socket.gethostname()
