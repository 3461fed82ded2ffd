"""What a lab has on the machine, found from its name alone; and its removal.

`down` removes what is found and looks again, so it also works after a crash in the middle of `up`, after any of the
lab's processes was killed, and after a reboot.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab import spec as specs
from fleet.lab.cluster import cgroups, network, volumes
from fleet.lab.locks import locked
from fleet.lab.programs import process


@dataclass(frozen=True, slots=True)
class Residue:
    """Everything of a lab that exists."""

    processes: tuple[str, ...]
    mounts: tuple[str, ...]
    cgroups: tuple[str, ...]
    links: tuple[str, ...]
    devices: tuple[str, ...]
    files: tuple[str, ...]

    def __bool__(self) -> bool:
        return any((self.processes, self.mounts, self.cgroups, self.links, self.devices, self.files))

    def __str__(self) -> str:
        kinds = {"processes": self.processes, "mounts": self.mounts, "cgroups": self.cgroups, "links": self.links}
        kinds |= {"devices": self.devices, "files": self.files}
        return "; ".join(f"{kind}: {', '.join(found[:5])}" for kind, found in kinds.items() if found)


def find(name: str) -> Residue:
    directory, lab = specs.directory(name), specs.identity(name)
    found = process.running(directory)
    orphans = {str(pid) for pid in cgroups.processes(lab)} - {str(one.pid) for one in found.values()}
    return Residue(
        processes=(*(f"{role} ({one.pid})" for role, one in found.items()), *sorted(orphans)),
        mounts=tuple(str(mount) for mount in mounts_below(directory)),
        cgroups=tuple(str(tree) for tree in cgroups.trees(lab)),
        links=tuple(network.links(lab)),
        devices=tuple(str(device) for device in volumes.devices(directory)),
        files=(str(directory),) if directory.exists() else (),
    )


def remove(name: str) -> None:
    """Remove all that `find` finds, in the order in which one thing holds another."""
    directory, lab = specs.directory(name), specs.identity(name)
    process.stop(directory)
    cgroups.remove(lab)
    deadline = time.monotonic() + 10
    while mounts := mounts_below(directory):
        for mount in reversed(mounts):
            subprocess.run(["umount", str(mount)], check=False, capture_output=True)
        if time.monotonic() > deadline:
            break
    network.remove(lab)
    while (devices := volumes.devices(directory)) and time.monotonic() < deadline:
        for device in devices:
            volumes.release(device)
    if not mounts_below(directory):  # never through a mount: what is behind it is not ours to delete
        shutil.rmtree(directory, ignore_errors=True)
    if left := find(name):
        raise ResourceError(
            f"lab {name!r} could not be removed whole; left: {left}", hint=f"try again: `fleet lab down --name {name}`"
        )


@contextmanager
def whole_or_gone(name: str) -> Iterator[None]:
    """Work on a lab alone. One that is begun here leaves nothing half-made; one that was there stays as it is.

    There is a lab when its specification is there, which is written before anything is started. Whether that is so is
    known only here: another command may have made or removed the lab while this one waited for it.
    """
    with locked(name):
        was_there = specs.file(name).exists()
        try:
            yield
        except BaseException:
            if not was_there:
                remove(name)
            raise


def mounts_below(directory: Path) -> list[Path]:
    table = Path("/proc/self/mountinfo")
    places = [Path(line.split()[4]) for line in table.read_text().splitlines()] if table.exists() else []
    return [place for place in places if place.is_relative_to(directory)]
