"""Processes of a lab: started, found again, ended.

Every process carries its lab's directory and its own role in the environment. That mark, and no file with process
ids, says what belongs to a lab: a process that was started right before a crash is found like any other.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from fleet.kube.identity import start_tick

MARK = "FLEET_LAB"
ROLE = "FLEET_LAB_ROLE"
BOOT = Path("/proc/sys/kernel/random/boot_id")
Identity = tuple[int, float, str]  # of a process: its id, when it started, and that as the kernel has it, if it says it


def start(
    lab: Path, role: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that it outlives the command that started it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
            env={**_clean_environment(), **(environment or {}), MARK: str(lab), ROLE: role},
        )


def _clean_environment() -> dict[str, str]:
    """Return what a daemon needs, and nothing of the shell that happened to start it (proxies, credentials)."""
    names = ("PATH", "HOME", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in names if name in os.environ}


def running_processes(lab: Path) -> dict[str, psutil.Process]:
    """Return the lab's processes by role; of several with one role (forks) the oldest."""
    processes: dict[str, psutil.Process] = {}
    for process, role in _marked_processes(lab):
        if role not in processes or process.create_time() < processes[role].create_time():
            processes[role] = process
    return processes


def processes_of_role(lab: Path, role: str) -> list[psutil.Process]:
    """Return the processes of one role: a program of the lab and all that it started."""
    return [process for process, process_role in _marked_processes(lab) if process_role == role]


def _marked_processes(lab: Path) -> list[tuple[psutil.Process, str]]:
    """Return the processes that carry the mark of a lab, each with its role."""
    result = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if environment.get(MARK) == str(lab) and process.status() != psutil.STATUS_ZOMBIE:
                result.append((process, environment.get(ROLE, "")))
        except (psutil.Error, OSError):  # ended meanwhile, or another user's
            continue
    return result


def stop(lab: Path, *, patience: float = 10.0) -> None:
    """Kill every process of the lab, until there is none. Nothing of a lab is kept, so nothing has to be saved."""
    deadline = time.monotonic() + patience
    while (processes := [process for process, _ in _marked_processes(lab)]) and time.monotonic() < deadline:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=1)


def identify(process: int) -> Identity:
    """Return the identity of a running process: its id and its start, which no later process shares."""
    return process, psutil.Process(process).create_time(), _since_boot(process)


def parse_identity(identity: Sequence[Any]) -> Identity:
    """Return an identity that was read from a file; old files have only the time of day of the start."""
    pid, started_at, *since_boot = identity
    return int(pid), float(started_at), str(since_boot[0]) if since_boot else ""


def is_alive(owner: Identity) -> bool:
    """Return whether the process with this id and start still exists (ids are used again, starts are not)."""
    pid, started_at, since_boot = owner
    try:
        return _since_boot(pid) == since_boot if since_boot else abs(psutil.Process(pid).create_time() - started_at) < 1
    except psutil.Error:
        return False


def _since_boot(process: int) -> str:
    """Return the boot and the tick at which a process started; "" if the kernel does not say.

    The time of day would not do: when the user sets the clock, all processes seem to have started at another time.
    """
    tick = start_tick(process)
    return f"{BOOT.read_text().strip()}:{tick}" if tick else ""


def read_tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log; "" if there is no log."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
