"""The process that undoes faults when their owner has died or their time is up: one per lab, while it has such faults.

It holds a lock for as long as it lives, so that every command sees whether there is one; and it ends only while it
holds the lock of the faults, so that none begins unwatched in that moment.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from fleet.lab import files
from fleet.lab.faults import records
from fleet.lab.locks import try_lock
from fleet.lab.programs import process

ROLE = "faults/guardian"
INTERVAL = 0.2  # seconds between two looks
LINGER = 30.0  # seconds without anything to watch before it goes: the next fault of a test comes soon
RETRY_INTERVAL = 5.0  # seconds until it tries again to undo what could not be undone


def ensure_guardian(lab: Path) -> None:
    """Start a guardian if none runs. The caller holds the lock of the faults."""
    with _try_lock_guardian(lab) as is_free:
        if not is_free:
            return
    process.start(
        lab,
        ROLE,
        [sys.executable, "-P", "-m", "fleet.lab.faults.guardian", lab.name],
        records.faults_directory(lab) / "guardian.log",
        _environment(lab),
    )


def _environment(lab: Path) -> dict[str, str]:
    """Return an environment with the same labs and programs as here.

    The guardian may have to start a program again, and must not build it.
    """
    environment = {"FLEET_STATE_DIR": str(lab.parent.parent), "FLEET_CACHE_DIR": str(files.cache_directory())}
    return environment | {name: os.environ[name] for name in ("KUBEBUILDER_ASSETS",) if name in os.environ}


def _try_lock_guardian(lab: Path) -> AbstractContextManager[bool]:
    """Yield whether this process is the guardian, for as long as the block lasts."""
    return try_lock(records.faults_directory(lab) / "guardian")


def watch_faults(name: str) -> None:
    """Undo faults until there has been none to watch for a while, or the lab is gone."""
    from fleet.errors import FleetError  # noqa: PLC0415 - all of this is for the process that watches
    from fleet.lab.faults.injection import sweep  # noqa: PLC0415
    from fleet.lab.lab import Lab  # noqa: PLC0415

    lab = Lab.open(name)
    with _try_lock_guardian(lab.directory) as is_guardian:
        idle_since = time.monotonic()
        while is_guardian and records.faults_directory(lab.directory).exists():
            pause = INTERVAL
            try:
                for active in sweep(lab):
                    print(f"undone: {active.id} {active.fault}", flush=True)
            except (FleetError, OSError) as error:
                print(error, flush=True)
                pause = RETRY_INTERVAL
            if any(active.is_watched for active in records.read_faults(lab.directory)):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > LINGER:
                with records.lock_faults(lab.directory):
                    if not any(active.is_watched for active in records.read_faults(lab.directory)):
                        return
            time.sleep(pause)


if __name__ == "__main__":
    watch_faults(sys.argv[1])
