"""Records of a lab's faults on disk, a file each, and the programs that a fault needs while it lasts.

One process writes at a time. The lock is not the lab's own: `lab up` holds that for as long as it waits, perhaps for
what a fault has broken. The programs are the lab's, so that `lab down` ends them like all others.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import psutil

from fleet.lab.faults.fault import ActiveFault
from fleet.lab.files import write_file
from fleet.lab.programs import process

if TYPE_CHECKING:
    import subprocess

    from fleet.lab.lab import Lab


def faults_directory(lab: Path) -> Path:
    return lab / "faults"


@contextmanager
def lock_faults(lab: Path) -> Iterator[None]:
    """Work on the lab's faults alone."""
    faults_directory(lab).mkdir(exist_ok=True)
    handle = os.open(faults_directory(lab), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_faults(lab: Path) -> list[ActiveFault]:
    """Return the active faults of a lab, in the order in which they began."""
    faults = []
    for path in faults_directory(lab).glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # cleared meanwhile
            faults.append(ActiveFault.from_json(orjson.loads(path.read_bytes())))
    return sorted(faults, key=lambda active: active.id)


def save_fault(lab: Path, active: ActiveFault) -> None:
    write_file(faults_directory(lab) / f"{active.id}.json", orjson.dumps(active.as_json(), option=orjson.OPT_INDENT_2))
    write_file(faults_directory(lab) / "last", str(active.id))


def delete_fault(lab: Path, active: ActiveFault) -> None:
    (faults_directory(lab) / f"{active.id}.json").unlink(missing_ok=True)


def next_id(lab: Path) -> int:
    """Return an id that no fault of this lab has had, so that clearing one never clears another."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int((faults_directory(lab) / "last").read_text()) + 1
    return max((active.id for active in read_faults(lab)), default=0) + 1


def start_program(
    lab: Lab,
    active: ActiveFault,
    name: str,
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program of a fault; its output goes to `faults/ID-NAME.log` in the lab's directory."""
    log = faults_directory(lab.directory) / f"{active.id}-{name}.log"
    return process.start(lab.directory, f"fault/{active.id}/{name}", command, log, environment)


def running_programs(lab: Lab, active: ActiveFault) -> dict[str, psutil.Process]:
    """Return the programs of a fault that run, by name."""
    prefix = f"fault/{active.id}/"
    processes = process.running_processes(lab.directory)
    return {role.removeprefix(prefix): child for role, child in processes.items() if role.startswith(prefix)}


def stop_programs(lab: Lab, active: ActiveFault) -> None:
    """Kill all programs of a fault, until there is none, and remove their logs."""
    deadline = time.monotonic() + 10
    while (children := list(running_programs(lab, active).values())) and time.monotonic() < deadline:
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, timeout=1)
    for log in faults_directory(lab.directory).glob(f"{active.id}-*.log"):
        log.unlink()
