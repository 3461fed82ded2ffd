"""Start the lab's programs and find them again.

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
    """What a daemon needs and nothing of the shell that happened to start it (proxies, credentials)."""
    keep = ("PATH", "HOME", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in keep if name in os.environ}


def running(lab: Path) -> dict[str, psutil.Process]:
    """The lab's processes by role; of several with one role (forks) the oldest."""
    found: dict[str, psutil.Process] = {}
    for process, role in _marked(lab):
        if role not in found or process.create_time() < found[role].create_time():
            found[role] = process
    return found


def of_role(lab: Path, role: str) -> list[psutil.Process]:
    """A program of the lab and whatever it started that still runs."""
    return [process for process, own in _marked(lab) if own == role]


def _marked(lab: Path) -> list[tuple[psutil.Process, str]]:
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
    """End every process of the lab, until there is none. By force: nothing of it is kept, so nothing is saved."""
    deadline = time.monotonic() + patience
    while (left := [process for process, _ in _marked(lab)]) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1)


def identify(process: int) -> Identity:
    """A process as a thing that can be known again."""
    return process, psutil.Process(process).create_time(), _since_boot(process)


def known(identity: Sequence[Any]) -> Identity:
    """An identity as it was kept in a file; old ones have no more than the time of day."""
    pid, began, *exactly = identity
    return int(pid), float(began), str(exactly[0]) if exactly else ""


def alive(owner: Identity) -> bool:
    """Whether the process with this id and start time is still there (ids are used again, times are not)."""
    pid, began, exactly = owner
    try:
        return _since_boot(pid) == exactly if exactly else abs(psutil.Process(pid).create_time() - began) < 1
    except psutil.Error:
        return False


def _since_boot(process: int) -> str:
    """Which boot it was and the tick of it at which a process started; "" if the kernel does not say.

    The time of day would not do: when somebody sets the clock, all processes seem to have started at another time.
    """
    tick = start_tick(process)
    return f"{BOOT.read_text().strip()}:{tick}" if tick else ""


def tail(log: Path, lines: int = 12) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
