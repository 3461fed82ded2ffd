"""Find on the machine what a target names: nodes, pods with their processes, programs. Looks only."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab.cluster import cgroups
from fleet.lab.cluster.api import RefusedError
from fleet.lab.cluster.node import Node
from fleet.lab.faults.fault import Owner
from fleet.lab.programs import process
from fleet.lab.spec import ClusterSpec

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

PAUSE = "pause"  # the process that holds a pod's network while its containers come and go


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that runs: its object, its node, and the control group of each container."""

    object: dict[str, Any]
    groups: dict[str, Path]  # container → the directory whose cgroup.procs are its processes
    holder: Owner  # a process that is in the pod's network for as long as there is the pod

    @property
    def address(self) -> str:
        return str(self.object["status"]["podIP"])

    @property
    def host_network(self) -> bool:
        return bool(self.object["spec"].get("hostNetwork"))


def require_real_nodes(cluster: ClusterSpec, what: str) -> None:
    """Refuse what simulated nodes cannot have."""
    if not cluster.network:
        raise ConfigurationError(
            f"cluster {cluster.name!r} has simulated nodes, and those have no {what}",
            hint="start a lab with `--nodes real`; faults of the control plane work with simulated nodes too",
        )


def find_node(lab: Lab, cluster: str, name: str) -> Node:
    spec = lab.spec.cluster(cluster)
    require_real_nodes(spec, "processes")
    for one in lab.nodes(spec):
        if one.name == name:
            return one
    known = ", ".join(one.name for one in lab.nodes(spec)) or "none"
    raise NotFoundError(f"cluster {cluster!r} has no node {name!r}", hint=f"its nodes: {known}")


def find_running_node(lab: Lab, cluster: str, name: str) -> tuple[Node, psutil.Process]:
    """A node and its first process."""
    found = find_node(lab, cluster, name)
    first = process.running_processes(lab.directory).get(found.role)
    if first is None:
        raise ConfigurationError(
            f"node {name!r} does not run", hint="`fleet lab fault list` shows who stopped it; `fleet lab up` starts it"
        )
    return found, first


def find_program(lab: Lab, cluster: str, name: str) -> psutil.Process:
    """A program of the control plane."""
    found = process.running_processes(lab.directory)
    if f"{cluster}/{name}" not in found:
        known = sorted(role.partition("/")[2] for role in found if role.startswith(f"{cluster}/"))
        raise ConfigurationError(
            f"{name} does not run in cluster {cluster!r}", hint=f"what runs: {', '.join(known) or 'nothing'}"
        )
    return found[f"{cluster}/{name}"]


def find_pod(lab: Lab, cluster: str, namespace: str, name: str) -> Pod:
    spec = lab.spec.cluster(cluster)
    require_real_nodes(spec, "pods with processes")
    found = read_pod(lab, spec, namespace, name)
    uid, where = found["metadata"]["uid"], found["spec"].get("nodeName", "")
    ids = {
        one["name"]: one.get("containerID", "").rpartition("/")[2]
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in found["status"].get(kind, [])
        if "running" in one.get("state", {})
    }
    directory = _find_pod_group(lab, where, uid)
    holder = _find_holder(directory) if directory else None
    if not directory or not holder or not ids:
        raise ConfigurationError(
            f"pod {name!r} does not run: it is {found['status'].get('phase', 'Unknown')}",
            hint=f"`kubectl -n {namespace} describe pod {name}` tells why",
        )
    return Pod(found, {container: directory / identity for container, identity in ids.items()}, holder)


def read_pod(lab: Lab, cluster: ClusterSpec, namespace: str, name: str) -> dict[str, Any]:
    api = lab.api(cluster)
    try:
        return api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    except RefusedError:
        names = [one["metadata"]["name"] for one in api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]]
        raise NotFoundError(
            f"there is no pod {name!r} in namespace {namespace!r} of cluster {cluster.name!r}",
            hint=f"its pods: {', '.join(names[:10]) or 'none'}",
        ) from None
    except ResourceError as error:
        raise ResourceError(f"the pod cannot be looked up: {error}") from error


def _find_pod_group(lab: Lab, where: str, uid: str) -> Path | None:
    """The control group of a pod, in any hierarchy: all have the same processes in the same places."""
    for tree in cgroups.find_trees(lab.spec.id):
        for group in cgroups.list_groups(tree / where / "kubepods"):
            if group.name == f"pod{uid}":
                return group
    return None


def _find_holder(group: Path) -> Owner | None:
    for one in list_processes(group):
        with contextlib.suppress(psutil.Error):
            if one.name() == PAUSE:
                return process.identify(one.pid)
    return None


def list_processes(group: Path) -> list[psutil.Process]:
    """The processes in a control group and below."""
    found = []
    for one in cgroups.list_processes(group):
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(one))
    return found


def container_groups(found: Pod, container: str) -> dict[str, Path]:
    """The control groups of one container, or of all."""
    if not container:
        return found.groups
    if container not in found.groups:
        raise NotFoundError(
            f"pod {found.object['metadata']['name']!r} runs no container {container!r}",
            hint=f"its containers: {', '.join(found.groups)}",
        )
    return {container: found.groups[container]}
