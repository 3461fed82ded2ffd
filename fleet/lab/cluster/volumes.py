"""Volumes of a cluster's claims as the machine reaches them, and the loop devices behind them.

A process on the machine changes what a pod sees: files in `mount` are the pod's, bytes of `file` are its disk.

A device outlives the program that made it, so it is found from the lab's directory alone: the provisioner links to a
device before it makes it, and removes the link after it.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import ConfigurationError, NotFoundError
from fleet.lab.cluster.api import Api, RequestRefusedError
from fleet.lab.programs import process

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

CLEAR_FILE, REMOVE_DEVICE = 0x4C01, 0x4C81  # LOOP_CLR_FD, LOOP_CTL_REMOVE
BLOCKS = Path("/sys/block")


def find_devices(directory: Path) -> list[Path]:
    """Return the devices that show a file below a directory, and those that were made for one and show none yet."""
    below = directory.resolve()
    names = {
        entry.name for entry in BLOCKS.glob("loop*") if (file := backing_file(entry.name)) and below in file.parents
    }
    for name in read_device_links(directory):
        if (BLOCKS / name).exists() and backing_file(name) is None:
            names.add(name)
    return sorted(Path("/dev") / name for name in names)


def read_device_links(directory: Path) -> dict[str, Path]:
    """Return the links of a lab's provisioner by their devices; it may remove some meanwhile."""
    links = {}
    for link in glob.glob(f"{glob.escape(str(directory))}/*/volumes/*/*/device"):  # noqa: PTH207 - pathlib's would fail
        with contextlib.suppress(OSError):
            links[Path(link).readlink().name] = Path(link)
    return links


def backing_file(name: str) -> Path | None:
    """Return the file that a device shows, also if it was deleted since; None if it shows none."""
    try:
        path = (BLOCKS / name / "loop" / "backing_file").read_text().strip()
    except OSError:
        return None
    return Path(path.removesuffix(" (deleted)"))


def release_device(device: Path) -> None:
    """Take its file from a device and remove it; one that is still open stays until it is closed."""
    with contextlib.suppress(OSError):
        _control_device(device, CLEAR_FILE)
    try:
        _control_device(Path("/dev/loop-control"), REMOVE_DEVICE, int(device.name.removeprefix("loop")))
    except OSError:
        time.sleep(0.05)
    else:
        device.unlink(missing_ok=True)  # where /dev is not the kernel's, the kernel does not


def _control_device(device: Path, request: int, argument: int = 0) -> None:
    handle = os.open(device, os.O_RDWR)
    try:
        fcntl.ioctl(handle, request, argument)
    finally:
        os.close(handle)


PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MOUNTS = Path("kubelet/plugins/kubernetes.io/local-volume/mounts")  # below a node's directory


@dataclass(frozen=True, slots=True)
class LabVolume:
    """A volume that the lab provisioned on a real node."""

    name: str  # of the PersistentVolume
    cluster: str
    namespace: str
    claim: str
    node: str
    file: Path  # the disk's content; sparse; gone if the disk was lost
    device: Path | None  # the block device that shows it, None if it is not attached
    place: Path  # where its node mounts it
    mount: Path | None  # the same as the machine reaches it, None while no pod uses it or its node is down


def find_claim_volume(lab: Lab, cluster: str, namespace: str, claim: str) -> LabVolume:
    """Find the volume of a bound claim; raise NotFoundError if there is none."""
    return _read_volume(lab, cluster, _real_cluster_api(lab, cluster), namespace, claim)


def find_pod_volumes(lab: Lab, cluster: str, namespace: str, pod: str) -> list[LabVolume]:
    """Find the volumes of a pod's claims, in the order of its specification."""
    api = _real_cluster_api(lab, cluster)
    manifest = _get_object(api, f"/api/v1/namespaces/{namespace}/pods/{pod}", f"pod {pod!r} in {namespace!r}")
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in manifest["spec"].get("volumes", [])
              if "persistentVolumeClaim" in volume]  # fmt: skip
    return [_read_volume(lab, cluster, api, namespace, claim) for claim in claims]


def _real_cluster_api(lab: Lab, cluster: str) -> Api:
    spec = lab.spec.cluster(cluster)
    if not spec.network:
        raise ConfigurationError(
            f"the nodes of {cluster!r} are simulated: their volumes have no disks",
            hint="use a lab with real nodes: `fleet lab up --nodes real`",
        )
    return lab.api(spec)


def _read_volume(lab: Lab, cluster: str, api: Api, namespace: str, claim: str) -> LabVolume:
    """Return the volume of a claim; raise NotFoundError if it has none yet."""
    claim_name = f"claim {claim!r} in {namespace!r}"
    manifest = _get_object(api, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}", claim_name)
    name = manifest["spec"].get("volumeName")
    if not name:
        raise NotFoundError(f"{claim_name} has no volume yet", hint="it gets one when a pod that uses it is scheduled")
    volume = _get_object(api, f"/api/v1/persistentvolumes/{name}", f"volume {name!r}")
    if volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) != "lab.fleet.dev/node-volume":
        raise ConfigurationError(f"the volume of {claim_name} is not one that the lab provisioned")
    link = Path(volume["spec"]["local"]["path"])
    node = link.parent.parent.name
    file = link.with_name("disk")
    directory = next(worker.directory for worker in lab.nodes(lab.spec.cluster(cluster)) if worker.name == node)
    target = directory / MOUNTS / name
    mount = _find_mount(lab, cluster, node, target)
    return LabVolume(name, cluster, namespace, claim, node, file, _attached_device(link, file), target, mount)


def _attached_device(link: Path, file: Path) -> Path | None:
    try:
        device = link.readlink()
    except OSError:
        return None
    return device if backing_file(device.name) == file else None


def _find_mount(lab: Lab, cluster: str, node: str, target: Path) -> Path | None:
    """Return where the machine reaches a mount of a node; None if it is not mounted.

    Mounts of a node are its own; its first process shows them.
    """
    first = process.running_processes(lab.directory).get(f"{cluster}/{node}")
    mount = Path(f"/proc/{first.pid}/root") / target.relative_to("/") if first else None
    return mount if mount and mount.is_mount() else None


def _get_object(api: Api, path: str, thing: str) -> dict[str, Any]:
    try:
        return api.get(path)
    except RequestRefusedError as error:
        raise NotFoundError(f"there is no {thing}: {error}") from None
