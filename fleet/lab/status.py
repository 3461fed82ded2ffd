"""Status of a lab: what runs, where, and how much memory its control planes use. Reads only, changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psutil

from fleet.errors import ResourceError
from fleet.lab.cluster.api import Api
from fleet.lab.cluster.controlplane import program_names
from fleet.lab.programs import process
from fleet.lab.spec import ClusterSpec

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def read_status(lab: Lab) -> dict[str, Any]:
    """Return the lab as data."""
    running = process.running_processes(lab.directory)
    with ThreadPoolExecutor(max(1, len(lab.spec.clusters))) as pool:  # a lab may have services only
        clusters = list(pool.map(lambda cluster: _read_cluster(lab, cluster, running), lab.spec.clusters))
    return {
        "name": lab.spec.name,
        "kubernetes": lab.spec.kubernetes,
        "kubeconfig": str(lab.kubeconfig),
        "images": list(lab.spec.images),
        "ready": all(cluster["ready"] for cluster in clusters),
        "clusters": clusters,
    }


def _read_cluster(lab: Lab, cluster: ClusterSpec, running: dict[str, psutil.Process]) -> dict[str, Any]:
    """Return one cluster of a lab as data."""
    processes = {name: running.get(f"{cluster.name}/{name}") for name in program_names(cluster)}
    programs = [
        {"name": name, "pid": child.pid if child else None, "memory": _memory(child)}
        for name, child in processes.items()
    ]
    nodes = _read_nodes_if_certified(lab, cluster)
    return {
        "name": cluster.name,
        "server": cluster.server,
        "nodeKind": cluster.nodes,
        "workers": cluster.workers,
        "ready": all(processes.values()) and len(nodes) >= cluster.workers and all(node["ready"] for node in nodes),
        "programs": programs,
        "memory": sum(program["memory"] for program in programs),
        "nodes": nodes,
    }


def _read_nodes_if_certified(lab: Lab, cluster: ClusterSpec) -> list[dict[str, Any]]:
    """Return the nodes of a cluster; none while it has no certificates."""
    try:
        return read_nodes(lab.api(cluster))
    except ResourceError:  # it has no certificates yet, or no more
        return []


def read_nodes(api: Api) -> list[dict[str, Any]]:
    """Return the nodes that the API server has; none while it does not answer."""
    try:
        response = api.get("/api/v1/nodes")
    except ResourceError:
        return []
    nodes = []
    for node in response["items"]:
        conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", [])}
        addresses = {address["type"]: address["address"] for address in node["status"].get("addresses", [])}
        ready = conditions.get("Ready") == "True"
        nodes.append({"name": node["metadata"]["name"], "ready": ready, "address": addresses.get("InternalIP", "")})
    return nodes


def _memory(child: psutil.Process | None) -> int:
    """Return a process's memory in bytes; pages that programs share are divided among them where the system can."""
    try:
        memory = child.memory_full_info() if child else None
        return int(getattr(memory, "pss", 0) or memory.rss) if memory else 0
    except psutil.Error:
        return 0
