"""Lookup of what a target names on the machine: nodes, pods with their processes, programs. Reads only."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab.cluster import cgroups
from fleet.lab.cluster.api import RequestRefusedError
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


def require_real_nodes(cluster: ClusterSpec, things: str) -> None:
    """Raise ConfigurationError if a cluster has simulated nodes."""
    if not cluster.network:
        raise ConfigurationError(
            f"cluster {cluster.name!r} has simulated nodes, and those have no {things}",
            hint="start a lab with `--nodes real`; faults of the control plane work with simulated nodes too",
        )


def find_node(lab: Lab, cluster: str, name: str) -> Node:
    """Find a real node of a cluster; raise NotFoundError if there is none of this name."""
    spec = lab.spec.cluster(cluster)
    require_real_nodes(spec, "processes")
    for node in lab.nodes(spec):
        if node.name == name:
            return node
    names = ", ".join(node.name for node in lab.nodes(spec)) or "none"
    raise NotFoundError(f"cluster {cluster!r} has no node {name!r}", hint=f"its nodes: {names}")


def find_running_node(lab: Lab, cluster: str, name: str) -> tuple[Node, psutil.Process]:
    """Find a node and its first process; raise ConfigurationError if the node does not run."""
    node = find_node(lab, cluster, name)
    first = process.running_processes(lab.directory).get(node.role)
    if first is None:
        raise ConfigurationError(
            f"node {name!r} does not run", hint="`fleet lab fault list` shows who stopped it; `fleet lab up` starts it"
        )
    return node, first


def find_program(lab: Lab, cluster: str, name: str) -> psutil.Process:
    """Find the process of a control plane's program; raise ConfigurationError if it does not run."""
    processes = process.running_processes(lab.directory)
    if f"{cluster}/{name}" not in processes:
        names = sorted(role.partition("/")[2] for role in processes if role.startswith(f"{cluster}/"))
        raise ConfigurationError(
            f"{name} does not run in cluster {cluster!r}", hint=f"what runs: {', '.join(names) or 'nothing'}"
        )
    return processes[f"{cluster}/{name}"]


def find_pod(lab: Lab, cluster: str, namespace: str, name: str) -> Pod:
    """Find a pod with its processes; raise ConfigurationError if it does not run."""
    spec = lab.spec.cluster(cluster)
    require_real_nodes(spec, "pods with processes")
    manifest = read_pod(lab, spec, namespace, name)
    uid, node_name = manifest["metadata"]["uid"], manifest["spec"].get("nodeName", "")
    ids = {
        container["name"]: container.get("containerID", "").rpartition("/")[2]
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in manifest["status"].get(kind, [])
        if "running" in container.get("state", {})
    }
    directory = _find_pod_group(lab, node_name, uid)
    holder = _find_holder(directory) if directory else None
    if not directory or not holder or not ids:
        raise ConfigurationError(
            f"pod {name!r} does not run: it is {manifest['status'].get('phase', 'Unknown')}",
            hint=f"`kubectl -n {namespace} describe pod {name}` tells why",
        )
    return Pod(manifest, {container: directory / identity for container, identity in ids.items()}, holder)


def read_pod(lab: Lab, cluster: ClusterSpec, namespace: str, name: str) -> dict[str, Any]:
    """Read a pod's object; raise NotFoundError if it does not exist."""
    api = lab.api(cluster)
    try:
        return api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    except RequestRefusedError:
        names = [pod["metadata"]["name"] for pod in api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]]
        raise NotFoundError(
            f"there is no pod {name!r} in namespace {namespace!r} of cluster {cluster.name!r}",
            hint=f"its pods: {', '.join(names[:10]) or 'none'}",
        ) from None
    except ResourceError as error:
        raise ResourceError(f"the pod cannot be looked up: {error}") from error


def _find_pod_group(lab: Lab, node_name: str, uid: str) -> Path | None:
    """Find the control group of a pod, in any hierarchy: all have the same processes in the same places."""
    for tree in cgroups.find_trees(lab.spec.id):
        for group in cgroups.list_groups(tree / node_name / "kubepods"):
            if group.name == f"pod{uid}":
                return group
    return None


def _find_holder(group: Path) -> Owner | None:
    """Find the process of a pod that holds its network."""
    for child in list_processes(group):
        with contextlib.suppress(psutil.Error):
            if child.name() == PAUSE:
                return process.identify(child.pid)
    return None


def list_processes(group: Path) -> list[psutil.Process]:
    """Return the processes in a control group and below."""
    processes = []
    for pid in cgroups.list_processes(group):
        with contextlib.suppress(psutil.Error):
            processes.append(psutil.Process(pid))
    return processes


def container_groups(pod: Pod, container: str) -> dict[str, Path]:
    """Return the control groups of one container, or of all; raise NotFoundError if the pod does not run it."""
    if not container:
        return pod.groups
    if container not in pod.groups:
        raise NotFoundError(
            f"pod {pod.object['metadata']['name']!r} runs no container {container!r}",
            hint=f"its containers: {', '.join(pod.groups)}",
        )
    return {container: pod.groups[container]}
