"""The volume behind a claim, seen from the machine: where its files are, who uses them, on which node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import process
from fleet.lab.api import RefusedError
from fleet.lab.faults import find
from fleet.lab.faults.fault import Active, Fault
from fleet.lab.faults.kind import Facts
from fleet.lab.faults.targets import parse

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume as its node has it."""

    claim: str
    node: str
    path: str  # on the node
    root: Path  # the same place, as this machine reaches it

    @property
    def has_a_limit(self) -> bool:
        """Whether it is a file system of its own."""
        return self.root.is_mount()


def volume(lab: Lab, fault: Fault) -> Volume:
    """The volume that a fault names."""
    target = parse(fault.targets[0])
    spec = lab.spec.cluster(fault.cluster)
    find.real(spec, "volumes with anything on them")
    api = lab.api(spec)
    try:
        claim = api.get(f"/api/v1/namespaces/{target.namespace}/persistentvolumeclaims/{target.name}")
    except RefusedError:
        found = api.get(f"/api/v1/namespaces/{target.namespace}/persistentvolumeclaims")["items"]
        names = ", ".join(one["metadata"]["name"] for one in found[:10]) or "none"
        raise NotFoundError(
            f"there is no claim {target.name!r} in namespace {target.namespace!r} of cluster {fault.cluster!r}",
            hint=f"its claims: {names}",
        ) from None
    name = claim["spec"].get("volumeName")
    if not name:
        raise ConfigurationError(f"{target} has no volume yet", hint="a volume is made when the first pod uses it")
    bound = api.get(f"/api/v1/persistentvolumes/{name}")
    node, path = _place(bound)
    if not node or not path:
        raise ConfigurationError(f"{target} is not a volume of the lab", hint="faults know its default StorageClass")
    find.running_node(lab, fault.cluster, node)
    return Volume(str(target), node, path, root(lab, fault.cluster, node, path))


def _place(bound: dict[str, Any]) -> tuple[str, str]:
    """Node and path of a PersistentVolume."""
    terms = bound["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
    nodes = [value for term in terms for one in term.get("matchExpressions", []) for value in one.get("values", [])]
    return (nodes or [""])[0], bound["spec"].get("local", {}).get("path", "")


def root(lab: Lab, cluster: str, node: str, path: str) -> Path:
    """A place of a node, reached from here; what is mounted there is mounted on the node only."""
    first = process.running(lab.directory).get(f"{cluster}/{node}")
    if first is None:
        raise ResourceError(f"node {node!r} does not run", hint="start it first: `fleet lab up`, or clear its fault")
    return Path(f"/proc/{first.pid}/root{path}")


def facts(found: Volume) -> Facts:
    """All that is needed to find the volume again."""
    return {"claim": found.claim, "node": found.node, "path": found.path, "mounted": found.has_a_limit}


def again(lab: Lab, active: Active) -> Path | None:
    """Where a volume's files are now; None if there is no such volume any more."""
    place = root(lab, active.fault.cluster, active.facts["node"], active.facts["path"])
    if not place.exists():
        return None
    if active.facts["mounted"] and not place.is_mount():
        raise ResourceError(f"{active.facts['claim']} is not mounted on {active.facts['node']}")
    return place


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
