"""The volume behind a claim: where its files are now, and who uses them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import loops, process, volumes
from fleet.lab.faults import find, records
from fleet.lab.faults.fault import Active, Fault
from fleet.lab.faults.kind import Facts
from fleet.lab.faults.targets import parse
from fleet.lab.volumes import Volume

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def volume(lab: Lab, fault: Fault) -> tuple[Volume, Path]:
    """The volume that a fault names, and where its files are."""
    target = parse(fault.targets[0])
    spec = lab.spec.cluster(fault.cluster)
    find.real(spec, "volumes with anything on them")
    claims = lab.api(spec).get(f"/api/v1/namespaces/{target.namespace}/persistentvolumeclaims")["items"]
    names = [claim["metadata"]["name"] for claim in claims]
    if target.name not in names:
        raise NotFoundError(
            f"there is no claim {target.name!r} in namespace {target.namespace!r} of cluster {fault.cluster!r}",
            hint=f"its claims: {', '.join(names[:10]) or 'none'}",
        )
    found = volumes.find(lab, fault.cluster, target.namespace, target.name)
    if not found.mount:
        raise ConfigurationError(
            f"{target} is not mounted on its node {found.node!r}", hint="it is while a pod uses it and its node runs"
        )
    return found, found.mount


def facts(found: Volume) -> Facts:
    """All that is needed to find the volume again."""
    return {"node": found.node, "place": str(found.place), "disk": str(found.file)}


@contextmanager
def opened(lab: Lab, active: Active) -> Iterator[Path | None]:
    """Where a volume's files are: as its node has it, or, while no pod uses it, mounted here. None if it is gone."""
    found = active.facts
    first = process.running(lab.directory).get(f"{active.fault.cluster}/{found['node']}")
    mounted = Path(f"/proc/{first.pid}/root{found['place']}") if first else None
    device = next((one for one in loops.devices(lab.directory) if loops.file_of(one.name) == Path(found["disk"])), None)
    if mounted and mounted.is_mount():
        yield mounted
    elif not Path(found["disk"]).exists():
        yield None
    elif device is None:
        raise ResourceError(f"{active.fault.targets[0]} is attached nowhere", hint="it is when its node runs")
    else:
        with _mounted(device, records.directory(lab.directory) / f"volume-{active.id}") as place:
            yield place


@contextmanager
def _mounted(device: Path, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", str(device), str(place)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise ResourceError(f"{device} cannot be mounted: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False, capture_output=True)
        place.rmdir()


def users(lab: Lab, fault: Fault) -> list[find.Pod]:
    """The running pods that use the claim."""
    target = parse(fault.targets[0])
    pods = lab.api(lab.spec.cluster(fault.cluster)).get(f"/api/v1/namespaces/{target.namespace}/pods")["items"]
    found = []
    for one in pods:
        claims = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in one["spec"].get("volumes", [])]
        if target.name in claims and one["status"].get("phase") == "Running":
            found.append(find.pod(lab, fault.cluster, target.namespace, one["metadata"]["name"]))
    return found
