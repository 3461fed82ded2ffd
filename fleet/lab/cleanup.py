"""Residue of a lab on the machine, found from the lab's name alone; and its removal.

`down` removes the residue and searches again, so it also works after a crash in the middle of `up`, after any of the
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
from fleet.lab.locks import lock_lab
from fleet.lab.programs import process


@dataclass(frozen=True, slots=True)
class Residue:
    """Everything of a lab that exists on the machine."""

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
        return "; ".join(f"{kind}: {', '.join(names[:5])}" for kind, names in kinds.items() if names)


def find_residue(name: str) -> Residue:
    """Find everything of a lab that exists on the machine."""
    directory, lab = specs.lab_directory(name), specs.lab_identity(name)
    running = process.running_processes(directory)
    orphans = {str(pid) for pid in cgroups.list_lab_processes(lab)} - {str(child.pid) for child in running.values()}
    return Residue(
        processes=(*(f"{role} ({child.pid})" for role, child in running.items()), *sorted(orphans)),
        mounts=tuple(str(mount) for mount in list_mounts(directory)),
        cgroups=tuple(str(tree) for tree in cgroups.find_trees(lab)),
        links=tuple(network.find_links(lab)),
        devices=tuple(str(device) for device in volumes.find_devices(directory)),
        files=(str(directory),) if directory.exists() else (),
    )


def remove_lab(name: str) -> None:
    """Remove all that `find_residue` finds, in the order in which one thing holds another.

    Raises ResourceError when something is left.
    """
    directory, lab = specs.lab_directory(name), specs.lab_identity(name)
    process.stop(directory)
    cgroups.remove_trees(lab)
    deadline = time.monotonic() + 10
    while mounts := list_mounts(directory):
        for mount in reversed(mounts):
            subprocess.run(["umount", str(mount)], check=False, capture_output=True)
        if time.monotonic() > deadline:
            break
    network.remove_links(lab)
    while (devices := volumes.find_devices(directory)) and time.monotonic() < deadline:
        for device in devices:
            volumes.release_device(device)
    if not list_mounts(directory):  # never through a mount: what is behind it is not ours to delete
        shutil.rmtree(directory, ignore_errors=True)
    if residue := find_residue(name):
        raise ResourceError(
            f"lab {name!r} could not be removed whole; left: {residue}",
            hint=f"try again: `fleet lab down --name {name}`",
        )


@contextmanager
def create_atomically(name: str) -> Iterator[None]:
    """Work on a lab alone, and remove it if the work fails; a lab that existed before stays as it is.

    A lab exists once its specification does, which is written before anything is started. Whether it exists is known
    only after the lock is held: another command may have made or removed the lab while this one waited.
    """
    with lock_lab(name):
        existed = specs.spec_file(name).exists()
        try:
            yield
        except BaseException:
            if not existed:
                remove_lab(name)
            raise


def list_mounts(directory: Path) -> list[Path]:
    """Return the places below a directory where something is mounted, in the order of the mounts."""
    table = Path("/proc/self/mountinfo")
    mounts = [Path(line.split()[4]) for line in table.read_text().splitlines()] if table.exists() else []
    return [mount for mount in mounts if mount.is_relative_to(directory)]
