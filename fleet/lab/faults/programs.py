"""Programs that a fault needs while it lasts. They are the lab's, so that `lab down` ends them like all others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from fleet.lab import process
from fleet.lab.faults import records
from fleet.lab.faults.fault import Active

if TYPE_CHECKING:
    import subprocess

    from fleet.lab.lab import Lab


def start(
    lab: Lab, active: Active, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start one; what it says is in `faults/ID-NAME.log` of the lab's directory."""
    log = records.directory(lab.directory) / f"{active.id}-{name}.log"
    return process.start(lab.directory, f"fault/{active.id}/{name}", command, log, environment)


def running(lab: Lab, active: Active) -> dict[str, psutil.Process]:
    """Those of a fault that run, by name."""
    prefix = f"fault/{active.id}/"
    found = process.running(lab.directory)
    return {role.removeprefix(prefix): one for role, one in found.items() if role.startswith(prefix)}


def stop(lab: Lab, active: Active) -> None:
    """End all of a fault, until there is none."""
    deadline = time.monotonic() + 10
    while (found := list(running(lab, active).values())) and time.monotonic() < deadline:
        for one in found:
            with contextlib.suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(found, timeout=1)
    for log in records.directory(lab.directory).glob(f"{active.id}-*.log"):
        log.unlink()
