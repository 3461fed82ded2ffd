"""Processes stopped, continued and ended by signals, and found again by identities that outlive ids."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable

import psutil

from fleet.errors import ResourceError
from fleet.lab.faults.fault import Owner
from fleet.lab.programs import process

PATIENCE = 30  # seconds; a process that waits for a disk stops when it has got its answer
Processes = Callable[[], list[psutil.Process]]


def freeze(processes: Processes) -> None:
    """Stop processes, and those that they start meanwhile, until none runs.

    If that takes too long, all go on and ResourceError is raised.
    """
    deadline = time.monotonic() + PATIENCE
    while running := [child for child in processes() if not is_stopped(child)]:
        if time.monotonic() > deadline:
            send(processes(), signal.SIGCONT)
            pids = ", ".join(str(child.pid) for child in running[:5])
            raise ResourceError(f"processes that were told to stop still run after {PATIENCE} s: {pids}")
        send(running, signal.SIGSTOP)
        time.sleep(0.005)


def is_stopped(child: psutil.Process) -> bool:
    """Return whether a process does nothing by itself any more."""
    try:
        return child.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return True


def send(processes: Iterable[psutil.Process], kind: signal.Signals) -> None:
    """Send a signal to processes; those that have ended are left out."""
    for child in processes:
        with contextlib.suppress(psutil.Error):
            child.send_signal(kind)


def find_processes(identities: Iterable[Owner]) -> list[psutil.Process]:
    """Find the processes with these identities that still exist."""
    processes = []
    for identity in identities:
        with contextlib.suppress(psutil.Error):
            if process.is_alive(process.parse_identity(identity)):
                processes.append(psutil.Process(int(identity[0])))
    return processes


def identify_processes(processes: Iterable[psutil.Process]) -> list[Owner]:
    """Return the identities of processes; those that have ended are left out."""
    result = []
    for child in processes:
        with contextlib.suppress(psutil.Error):
            result.append(process.identify(child.pid))
    return result
