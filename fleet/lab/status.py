"""How a lab is: what runs, where, and how much memory its control planes use. Looks only, changes nothing."""

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


def status(lab: Lab) -> dict[str, Any]:
    """The lab as data."""
    running = process.running(lab.directory)
    with ThreadPoolExecutor(max(1, len(lab.spec.clusters))) as pool:  # a lab may have services only
        clusters = list(pool.map(lambda cluster: _cluster(lab, cluster, running), lab.spec.clusters))
    return {
        "name": lab.spec.name,
        "kubernetes": lab.spec.kubernetes,
        "kubeconfig": str(lab.kubeconfig),
        "images": list(lab.spec.images),
        "ready": all(cluster["ready"] for cluster in clusters),
        "clusters": clusters,
    }


def _cluster(lab: Lab, cluster: ClusterSpec, running: dict[str, psutil.Process]) -> dict[str, Any]:
    found = {name: running.get(f"{cluster.name}/{name}") for name in program_names(cluster)}
    programs = [{"name": name, "pid": one.pid if one else None, "memory": _memory(one)} for name, one in found.items()]
    nodes = _nodes(lab, cluster)
    return {
        "name": cluster.name,
        "server": cluster.server,
        "nodeKind": cluster.nodes,
        "workers": cluster.workers,
        "ready": all(found.values()) and len(nodes) >= cluster.workers and all(node["ready"] for node in nodes),
        "programs": programs,
        "memory": sum(program["memory"] for program in programs),
        "nodes": nodes,
    }


def _nodes(lab: Lab, cluster: ClusterSpec) -> list[dict[str, Any]]:
    try:
        return node_status(lab.api(cluster))
    except ResourceError:  # it has no certificates yet, or no more
        return []


def node_status(api: Api) -> list[dict[str, Any]]:
    """The nodes that the API server knows; none while it does not answer."""
    try:
        found = api.get("/api/v1/nodes")
    except ResourceError:
        return []
    nodes = []
    for node in found["items"]:
        conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
        addresses = {one["type"]: one["address"] for one in node["status"].get("addresses", [])}
        ready = conditions.get("Ready") == "True"
        nodes.append({"name": node["metadata"]["name"], "ready": ready, "address": addresses.get("InternalIP", "")})
    return nodes


def _memory(one: psutil.Process | None) -> int:
    """In bytes; pages of the one binary that several programs share are counted once where the system can tell."""
    try:
        full = one.memory_full_info() if one else None
        return int(getattr(full, "pss", 0) or full.rss) if full else 0
    except psutil.Error:
        return 0
