"""Stop processes, let them go on, end them; and know them again when another process has got their number."""

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
    """Stop all of them, and those that they started meanwhile, until none runs; or let all go on, and fail."""
    deadline = time.monotonic() + PATIENCE
    while moving := [one for one in processes() if not is_stopped(one)]:
        if time.monotonic() > deadline:
            send(processes(), signal.SIGCONT)
            pids = ", ".join(str(one.pid) for one in moving[:5])
            raise ResourceError(f"processes that were told to stop still run after {PATIENCE} s: {pids}")
        send(moving, signal.SIGSTOP)
        time.sleep(0.005)


def is_stopped(one: psutil.Process) -> bool:
    """Whether it does nothing by itself any more."""
    try:
        return one.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return True


def send(processes: Iterable[psutil.Process], what: signal.Signals) -> None:
    for one in processes:
        with contextlib.suppress(psutil.Error):
            one.send_signal(what)


def find_processes(identities: Iterable[Owner]) -> list[psutil.Process]:
    """Those that are still there."""
    found = []
    for identity in identities:
        with contextlib.suppress(psutil.Error):
            if process.is_alive(process.parse_identity(identity)):
                found.append(psutil.Process(int(identity[0])))
    return found


def identify_processes(processes: Iterable[psutil.Process]) -> list[Owner]:
    found = []
    for one in processes:
        with contextlib.suppress(psutil.Error):
            found.append(process.identify(one.pid))
    return found
