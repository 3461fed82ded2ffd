"""What is wrong with a cluster's API server: a plan per fault in a directory, and one process that carries them out.

It says in a file beside them which it has taken up, so whoever adds or removes one knows when that is so.
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
from fleet.lab.files import write
from fleet.lab.locks import only_one
from fleet.lab.programs import process
from fleet.lab.proxy.plan import Plan

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

PATIENCE = 60.0  # seconds for a process to start on a busy machine
HEARING = 5.0  # seconds for one that runs to take note
Seen = tuple[int, ...]  # numbers of faults


def directory(lab: Lab, cluster: str) -> Path:
    return lab.directory / "faults" / "api" / cluster


def add(lab: Lab, cluster: str, number: int, plan: Plan) -> None:
    """Returns when it is carried out."""
    place = directory(lab, cluster)
    write(place / f"{number}.json", plan.to_json())
    started: subprocess.Popen[bytes] | None = None
    deadline = time.monotonic() + PATIENCE
    while number not in _carried_out(place):
        if started is None and not _is_running(place):
            started = _start(lab, cluster, place)
        if time.monotonic() > deadline or (started and started.poll() is not None):
            raise _failure(cluster, place)
        time.sleep(0.01)


def _start(lab: Lab, cluster: str, place: Path) -> subprocess.Popen[bytes]:
    (place / "carried-out").unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "fleet.lab.faults.api.front", lab.spec.name, cluster]
    environment = {"FLEET_STATE_DIR": str(lab.directory.parent.parent)}
    return process.start(lab.directory, _role(cluster), command, _log(place), environment)


def remove(lab: Lab, cluster: str, number: int) -> None:
    """Returns when it is not carried out any more; a process that does not hear of it is killed."""
    place = directory(lab, cluster)
    if not place.exists():
        return
    (place / f"{number}.json").unlink(missing_ok=True)
    deadline = time.monotonic() + HEARING
    while number in _carried_out(place) and _is_running(place):
        if time.monotonic() > deadline:
            _end(lab, cluster)
            if look(place):
                _start(lab, cluster, place)
            return
        time.sleep(0.01)


def _end(lab: Lab, cluster: str) -> None:
    found = process.running(lab.directory).get(_role(cluster))
    if found is not None:
        with suppress(psutil.Error):
            found.kill()
            found.wait(PATIENCE)


def _role(cluster: str) -> str:
    return f"fault/api/{cluster}"


def _failure(cluster: str, place: Path) -> ResourceError:
    log = process.tail(_log(place))
    return ResourceError(f"the proxy before the API server of {cluster} does not start; the end of its log:\n{log}")


def look(place: Path) -> Seen:
    """The faults that there are."""
    return tuple(sorted(int(path.stem) for path in place.glob("*.json")))


def together(place: Path, seen: Seen) -> Plan:
    """All of them as one."""
    found = []
    for number in seen:
        with suppress(FileNotFoundError):  # removed meanwhile: the next look will tell
            found.append(Plan.from_json((place / f"{number}.json").read_bytes()))
    return Plan([rule for plan in found for rule in plan.rules], seed=sum(plan.seed for plan in found))


def carried_out(place: Path, seen: Seen) -> None:
    write(place / "carried-out", orjson.dumps(seen))


def alone(place: Path) -> AbstractContextManager[bool]:
    """Whether nobody else carries plans out, and nobody will meanwhile."""
    return only_one(place / "front")


def _is_running(place: Path) -> bool:
    with alone(place) as none:
        return not none


def _carried_out(place: Path) -> list[int]:
    try:
        found: list[int] = orjson.loads((place / "carried-out").read_bytes())
    except FileNotFoundError:
        return []
    return found


def _log(place: Path) -> Path:
    return place / "front.log"
