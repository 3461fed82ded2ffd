"""Faults of volumes: full, with wrong bytes in a file, or empty. They are made from the machine, below what a pod sees.

What is lost stays lost. What was filled is free again in the end, and bytes that are still wrong become right again.
"""

from __future__ import annotations

import base64
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, ClassVar

import psutil

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab.cluster import volumes
from fleet.lab.cluster.volumes import LabVolume
from fleet.lab.faults import lookup, records
from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind, expect_target, parse_target
from fleet.lab.faults.kinds import signals
from fleet.lab.faults.kinds.nodes import LoseNode
from fleet.lab.faults.verb import Draw, FaultVerb, Option, TargetName, TargetScope, check_at_least, draw_seed
from fleet.lab.programs import process

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def find_volume(lab: Lab, fault: Fault) -> tuple[LabVolume, Path]:
    """Find the volume that a fault names, and where its files are.

    Raises NotFoundError if there is no such claim, ConfigurationError if its volume is not mounted.
    """
    target = parse_target(fault.targets[0])
    spec = lab.spec.cluster(fault.cluster)
    lookup.require_real_nodes(spec, "volumes with anything on them")
    claims = lab.api(spec).get(f"/api/v1/namespaces/{target.namespace}/persistentvolumeclaims")["items"]
    names = [claim["metadata"]["name"] for claim in claims]
    if target.name not in names:
        raise NotFoundError(
            f"there is no claim {target.name!r} in namespace {target.namespace!r} of cluster {fault.cluster!r}",
            hint=f"its claims: {', '.join(names[:10]) or 'none'}",
        )
    volume = volumes.find_claim_volume(lab, fault.cluster, target.namespace, target.name)
    if not volume.mount:
        raise ConfigurationError(
            f"{target} is not mounted on its node {volume.node!r}", hint="it is while a pod uses it and its node runs"
        )
    return volume, volume.mount


def volume_facts(volume: LabVolume) -> Facts:
    """Return all that is needed to find the volume again."""
    return {"node": volume.node, "place": str(volume.place), "disk": str(volume.file)}


@contextmanager
def open_volume(lab: Lab, active: ActiveFault) -> Iterator[Path | None]:
    """Yield where a volume's files are: as its node has it, or, while unused, mounted here. None if it is gone."""
    facts = active.facts
    first = process.running_processes(lab.directory).get(f"{active.fault.cluster}/{facts['node']}")
    mount = Path(f"/proc/{first.pid}/root{facts['place']}") if first else None
    devices = volumes.find_devices(lab.directory)
    device = next((device for device in devices if volumes.backing_file(device.name) == Path(facts["disk"])), None)
    if mount and mount.is_mount():
        yield mount
    elif not Path(facts["disk"]).exists():
        yield None
    elif device is None:
        raise ResourceError(f"{active.fault.targets[0]} is attached nowhere", hint="it is when its node runs")
    else:
        with _mount_device(device, records.faults_directory(lab.directory) / f"volume-{active.id}") as mounted_at:
            yield mounted_at


@contextmanager
def _mount_device(device: Path, target: Path) -> Iterator[Path]:
    target.mkdir(exist_ok=True)
    result = subprocess.run(["mount", str(device), str(target)], check=False, capture_output=True, text=True)
    if result.returncode:
        raise ResourceError(f"{device} cannot be mounted: {result.stderr.strip()}")
    try:
        yield target
    finally:
        subprocess.run(["umount", str(target)], check=False, capture_output=True)
        target.rmdir()


def find_users(lab: Lab, fault: Fault) -> list[lookup.Pod]:
    """Return the running pods that use the claim."""
    target = parse_target(fault.targets[0])
    pods = lab.api(lab.spec.cluster(fault.cluster)).get(f"/api/v1/namespaces/{target.namespace}/pods")["items"]
    users = []
    for manifest in pods:
        claims = [
            volume.get("persistentVolumeClaim", {}).get("claimName") for volume in manifest["spec"].get("volumes", [])
        ]
        if target.name in claims and manifest["status"].get("phase") == "Running":
            users.append(lookup.find_pod(lab, fault.cluster, target.namespace, manifest["metadata"]["name"]))
    return users


BLOCK = 4096


class FillVolume(Kind):
    """A file that takes all free space of a volume; a program that writes then gets ENOSPC."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return volume_facts(find_volume(lab, fault)[0])

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        with open_volume(lab, active) as root:
            if root:
                fill_file_system(root / self._name(active), int(active.fault.options.get("leave", 0)))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        with open_volume(lab, active) as root:
            if root:
                (root / self._name(active)).unlink(missing_ok=True)

    @staticmethod
    def _name(active: ActiveFault) -> str:
        return f".fleet-fault-{active.id}"


def fill_file_system(file: Path, leave: int) -> None:
    """Make a file of all free space but for `leave` bytes: large pieces first, to the last block in the end."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        size, piece = 0, max(BLOCK, _free_bytes(file) - leave)
        while piece >= BLOCK:
            try:
                if leave and _free_bytes(file) - piece < leave:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.posix_fallocate(handle, size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2
    finally:
        os.close(handle)


def _free_bytes(file: Path) -> int:
    """Return the free space of the file system that a file is on."""
    status = os.statvfs(file)
    return status.f_bfree * status.f_frsize


def fill(
    scope: TargetScope,
    target: TargetName,
    *,
    leave: Annotated[int, Option("Leave so much free.", metavar="BYTES")] = 0,
) -> Fault:
    """Fill a volume: whoever writes to it is told that no space is left."""
    volume = expect_target(target, scope.namespace, "fill", "volume")
    return Fault("fill-volume", scope.cluster, (str(volume),), {"leave": int(check_at_least(0, leave, "--leave"))})


FILL = FaultVerb(
    fill,
    kinds={"fill-volume": FillVolume},
    draws=(Draw(("volume",), lambda scope, target, chance: fill(scope, target)),),
)


class CorruptVolume(Kind):
    """Inverted bytes in a file. The old ones are in the record, so that they can be put back."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        volume, root = find_volume(lab, fault)
        file = choose_file(root, fault.options["file"])
        places = choose_places(file.stat().st_size, fault.options["places"], fault.options["seed"])
        if not places:
            raise ConfigurationError(f"{file.name} is empty: there is nothing in it to corrupt", field="--file")
        with file.open("rb") as content:
            old_bytes = bytes(_read_byte(content.fileno(), place)[0] for place in places)
        facts = {"file": str(file.relative_to(root)), "places": places}
        return {**volume_facts(volume), **facts, "before": base64.b64encode(old_bytes).decode()}

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        self._replace(lab, active, lambda before, now: before ^ 0xFF)

    def end(self, lab: Lab, active: ActiveFault) -> None:
        self._replace(lab, active, lambda before, now: before if now == before ^ 0xFF else now)

    def _replace(self, lab: Lab, active: ActiveFault, new: Callable[[int, int], int]) -> None:
        with open_volume(lab, active) as root:
            file = root / active.facts["file"] if root else None
            if file and file.is_file():
                rewrite_bytes(file, active.facts["places"], base64.b64decode(active.facts["before"]), new)


def rewrite_bytes(file: Path, places: Sequence[int], before: bytes, new: Callable[[int, int], int]) -> None:
    """Write bytes that are made from the old one and the present one; a file that is shorter stays so."""
    with file.open("r+b") as content:
        for place, old in zip(places, before, strict=True):
            if present := _read_byte(content.fileno(), place):
                os.pwrite(content.fileno(), bytes([new(old, present[0])]), place)
        os.fsync(content.fileno())


def choose_file(root: Path, name: str) -> Path:
    """Return the file that the user named, or the largest; raise an error if there is none."""
    files = {path: path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
    if name:
        if root / name not in files:
            names = ", ".join(sorted(str(path.relative_to(root)) for path in files)[:10]) or "none"
            raise NotFoundError(f"there is no file {name!r} on the volume", field="--file", hint=f"its files: {names}")
        return root / name
    if not files:
        raise ConfigurationError("there is no file on the volume", hint="an empty one cannot be corrupted")
    return min(files, key=lambda path: (-files[path], str(path)))


def choose_places(size: int, count: int, seed: int) -> list[int]:
    """Return where bytes are changed: the same for the same seed, spread over the file."""
    return sorted(Random(seed).sample(range(size), min(count, size)))  # noqa: S311 - nothing secret about it


def _read_byte(handle: int, place: int) -> bytes:
    return os.pread(handle, 1, place)


def corrupt(
    scope: TargetScope,
    target: TargetName,
    *,
    file: Annotated[str, Option("A file on the volume. [default: the largest]", metavar="PATH")] = "",
    places: Annotated[int, Option("How many bytes are changed.", show_default=True)] = 16,
    seed: Annotated[int, Option("Chance that can be had again: which bytes.")] = 0,
) -> Fault:
    """Change bytes of a file on a volume. Clearing puts those back that are still wrong."""
    volume = expect_target(target, scope.namespace, "corrupt", "volume")
    if not 1 <= places <= 10_000:
        raise ConfigurationError(f"{places} places are not possible", field="--places", hint="1 to 10000")
    if file.startswith("/") or ".." in file.split("/"):
        raise ConfigurationError(
            f"{file!r} is not a path on the volume", field="--file", hint="relative to the volume's own root"
        )
    options = {"file": file, "places": places, "seed": seed}
    return Fault("corrupt-volume", scope.cluster, (str(volume),), options)


CORRUPT = FaultVerb(
    corrupt,
    kinds={"corrupt-volume": CorruptVolume},
    draws=(
        Draw(
            ("volume",),
            lambda scope, target, chance: corrupt(scope, target, seed=draw_seed(chance)),
            is_default=False,
        ),
    ),
)


class LoseVolume(Kind):
    """The loss of all files of a volume. Pods that use it are frozen meanwhile and killed then: none can save anything.

    If that is cut short, the frozen processes are killed all the same. The files are not removed again: a pod that was
    started since may have written new ones.
    """

    lasts: ClassVar[bool] = False

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        pods = find_users(lab, fault)
        groups = [str(group) for pod in pods for group in pod.groups.values()]
        return {**volume_facts(find_volume(lab, fault)[0]), "groups": groups}

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        signals.freeze(lambda: self._processes(active))
        with open_volume(lab, active) as root:
            if root:
                empty_directory(root)

    def end(self, lab: Lab, active: ActiveFault) -> None:
        signals.send([child for child in self._processes(active) if signals.is_stopped(child)], signal.SIGKILL)

    @staticmethod
    def _processes(active: ActiveFault) -> list[psutil.Process]:
        return [child for group in active.facts["groups"] for child in lookup.list_processes(Path(group))]


def empty_directory(root: Path) -> None:
    """Remove all that is in a directory, but not the directory, nor what a new file system has."""
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path.name != "lost+found":
                shutil.rmtree(path)
        else:
            path.unlink()


def lose(scope: TargetScope, target: TargetName) -> Fault:
    """Lose all that is on a volume, or a node with all its disks, for good.

    A volume's pods are killed and find it empty. When a node's fault is cleared, a new one of its name starts; the
    volumes that were on the old one cannot be mounted any more.
    """
    thing = expect_target(target, scope.namespace, "lose", "volume", "node")
    return Fault(f"lose-{thing.thing}", scope.cluster, (str(thing),), {})


LOSE = FaultVerb(
    lose,
    kinds={"lose-volume": LoseVolume, "lose-node": LoseNode},
    draws=(
        Draw(("volume",), lambda scope, target, chance: lose(scope, target), is_default=False),
        Draw(("node",), lambda scope, target, chance: lose(scope, target), is_default=False),
    ),
)
