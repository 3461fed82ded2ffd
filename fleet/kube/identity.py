"""Identities of the person and of the process that act.

The person is named for users who look at a change later.

The process that holds a Lease is named so precisely that another one on the same machine can tell that it is dead: a
killed sync should not block the next for the length of a Lease. Machine (boot), pid namespace, pid and start together
name one process for ever; a process on another machine or in another container cannot judge them and waits for the
time. The start is counted from the boot where the kernel gives it: by the time of day, every process would seem to be
another one as soon as the clock is set.
"""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

TOLD_BY = ("FLEET_USER", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")


def person_name() -> str:
    """Return the user who started the job in CI, whose name the machine does not know; else the local user."""
    names = (os.environ.get(variable, "").strip() for variable in TOLD_BY)
    return next(filter(None, names), "") or f"{user()}@{socket.gethostname()}"


def program_name(name: str) -> str:
    """Return the name of a program that acts by itself, with its host."""
    return f"{name}@{socket.gethostname()}"


def user() -> str:
    """Return the name of the process's user; its number if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        return str(os.getuid())


_PROC = Path("/proc")
_TICKS = "ticks:"


def name() -> str:
    """Return the user, host and pid, for people."""
    return f"{user()}@{socket.gethostname()} (pid {os.getpid()})"


def identity() -> str:
    """Return a text, for programs, that names this process and no other."""
    return f"{_machine_id()}/{os.getpid()}/{_read_start(os.getpid())}"


def is_dead(other: str) -> bool:
    """Return whether a process is certainly dead: it was on this machine and is gone."""
    machine, _, process = other.partition("/")
    pid, _, started = process.partition("/")
    if machine != _machine_id() or not pid.isdigit():
        return False
    current = _read_start(int(pid))
    if not current:
        return True
    comparable = current.startswith(_TICKS) == started.startswith(_TICKS)  # an older fleet recorded the time of day
    return comparable and current != started


def start_tick(pid: int) -> str:
    """Return the tick since the boot at which a process began.

    Return "" for a process that has ended or is a zombie, and where the kernel gives no tick.
    """
    try:
        # After the name, which may have spaces: the state is the 3rd of all fields, the start the 22nd.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _read_start(pid: int) -> str:
    """Return when a process began, in the form that this machine uses; "" for one that has ended or is a zombie."""
    if (_PROC / "self").exists():
        tick = start_tick(pid)
        return f"{_TICKS}{tick}" if tick else ""
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return ""


def _machine_id() -> str:
    boot, namespace = _PROC / "sys/kernel/random/boot_id", _PROC / "self/ns/pid"
    if boot.exists() and namespace.exists():
        return f"{boot.read_text().strip()}-{namespace.stat().st_ino}"
    return socket.gethostname()
