"""Plans of the faults of an API server: a file per fault in a directory, and one process that carries them out.

It says in a file beside them which it carries out, so a command that adds or removes one knows when that is so.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import psutil

from fleet.errors import ResourceError
from fleet.lab.files import write_file
from fleet.lab.locks import try_lock
from fleet.lab.programs import process
from fleet.lab.proxy.plan import Plan

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

PATIENCE = 60.0  # seconds for a process to start on a busy machine
NOTICE_TIMEOUT = 5.0  # seconds for one that runs to take note
FaultIds = tuple[int, ...]  # numbers of faults


def plans_directory(lab: Lab, cluster: str) -> Path:
    return lab.directory / "faults" / "api" / cluster


def add_plan(lab: Lab, cluster: str, number: int, plan: Plan) -> None:
    """Add the plan of a fault; return when it is carried out. Raises ResourceError if the proxy does not start."""
    directory = plans_directory(lab, cluster)
    write_file(directory / f"{number}.json", plan.to_json())
    front: subprocess.Popen[bytes] | None = None
    deadline = time.monotonic() + PATIENCE
    while number not in _read_carried_out(directory):
        if front is None and not _is_running(directory):
            front = _start_front(lab, cluster, directory)
        if time.monotonic() > deadline or (front and front.poll() is not None):
            raise _start_error(cluster, directory)
        time.sleep(0.01)


def _start_front(lab: Lab, cluster: str, directory: Path) -> subprocess.Popen[bytes]:
    (directory / "carried-out").unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "fleet.lab.faults.api.front", lab.spec.name, cluster]
    environment = {"FLEET_STATE_DIR": str(lab.directory.parent.parent)}
    return process.start(lab.directory, _role(cluster), command, _log(directory), environment)


def remove_plan(lab: Lab, cluster: str, number: int) -> None:
    """Remove the plan of a fault; return when it is not carried out any more.

    A proxy that takes no note of it is killed.
    """
    directory = plans_directory(lab, cluster)
    if not directory.exists():
        return
    (directory / f"{number}.json").unlink(missing_ok=True)
    deadline = time.monotonic() + NOTICE_TIMEOUT
    while number in _read_carried_out(directory) and _is_running(directory):
        if time.monotonic() > deadline:
            _end_front(lab, cluster)
            if list_plans(directory):
                _start_front(lab, cluster, directory)
            return
        time.sleep(0.01)


def _end_front(lab: Lab, cluster: str) -> None:
    front = process.running_processes(lab.directory).get(_role(cluster))
    if front is not None:
        with suppress(psutil.Error):
            front.kill()
            front.wait(PATIENCE)


def _role(cluster: str) -> str:
    return f"fault/api/{cluster}"


def _start_error(cluster: str, directory: Path) -> ResourceError:
    log = process.read_tail(_log(directory))
    return ResourceError(f"the proxy before the API server of {cluster} does not start; the end of its log:\n{log}")


def list_plans(directory: Path) -> FaultIds:
    """Return the ids of the faults that have a plan."""
    return tuple(sorted(int(path.stem) for path in directory.glob("*.json")))


def merge_plans(directory: Path, ids: FaultIds) -> Plan:
    """Return all plans as one."""
    plans = []
    for number in ids:
        with suppress(FileNotFoundError):  # removed meanwhile: the next look will tell
            plans.append(Plan.from_json((directory / f"{number}.json").read_bytes()))
    return Plan([rule for plan in plans for rule in plan.rules], seed=sum(plan.seed for plan in plans))


def write_carried_out(directory: Path, ids: FaultIds) -> None:
    write_file(directory / "carried-out", orjson.dumps(ids))


def try_lock_front(directory: Path) -> AbstractContextManager[bool]:
    """Yield whether this process alone carries out plans, for as long as the block lasts."""
    return try_lock(directory / "front")


def _is_running(directory: Path) -> bool:
    with try_lock_front(directory) as is_free:
        return not is_free


def _read_carried_out(directory: Path) -> list[int]:
    try:
        ids: list[int] = orjson.loads((directory / "carried-out").read_bytes())
    except FileNotFoundError:
        return []
    return ids


def _log(directory: Path) -> Path:
    return directory / "front.log"
