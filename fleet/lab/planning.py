"""Planning of a lab: what the user asked for, completed from the existing lab and from free addresses and ports."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

from fleet.errors import ConfigurationError, NotFoundError
from fleet.lab import spec as specs
from fleet.lab.cluster import network
from fleet.lab.cluster.controlplane import PROGRAMS
from fleet.lab.programs import packages
from fleet.lab.programs.process import Identity
from fleet.lab.spec import KUBERNETES, MOST_WORKERS, ClusterSpec, LabSpec, Nodes, minor_version, resolve_version
from fleet.text import count_noun

ALTERNATIVES = (
    "use `--nodes simulated` (API servers that are real, nodes that are not), or any cluster of your own: "
    "`kind create cluster`, then `fleet cluster add` with its context"
)


def default_nodes() -> Nodes:
    """Return the kind of nodes for a new cluster: real where they are possible, on Linux as root."""
    return "real" if sys.platform == "linux" and os.geteuid() == 0 else "simulated"


def plan_lab(
    name: str,
    clusters: Sequence[str],
    *,
    nodes: Nodes | None,
    workers: int | None,
    kubernetes: str | None,
    owner: Identity | None,
) -> LabSpec:
    """Return the specification of a lab: the existing clusters, and the new ones that the user asked for.

    Raises ConfigurationError when the request contradicts the existing lab or is not possible on this machine.
    """
    try:
        before = LabSpec.load(name)
    except NotFoundError:
        before = LabSpec(name, (), resolve_version(kubernetes), owner)
    if kubernetes and resolve_version(kubernetes) != before.kubernetes:
        raise ConfigurationError(
            f"lab {name!r} is Kubernetes {before.kubernetes} already",
            field="--kubernetes",
            hint="give the new lab another --name, or take this one down first",
        )
    if workers is not None and not 0 <= workers <= MOST_WORKERS:
        raise ConfigurationError(
            f"{workers} workers are not possible", field="--workers", hint=f"0 to {MOST_WORKERS} per cluster"
        )
    names = list(clusters) or [cluster.name for cluster in before.clusters] or ["lab"]
    for cluster in names:
        specs.check_name(cluster, "cluster")
    if len(set(names)) != len(names):
        raise ConfigurationError("a cluster is named twice", field="--clusters", hint="each name once: a,b,c")
    existing = {cluster.name: cluster for cluster in before.clusters}
    result = {cluster.name: _extend_cluster(cluster, nodes, workers, names) for cluster in before.clusters}
    for cluster in names:
        if cluster not in existing:
            networks = [spec.network for spec in result.values() if spec.network]
            result[cluster] = _new_cluster(cluster, nodes, workers, networks)
    if minor_version(before.kubernetes) != minor_version(KUBERNETES) and any(spec.network for spec in result.values()):
        raise ConfigurationError(
            f"real nodes are Kubernetes {KUBERNETES}, which is too new for a control plane of {before.kubernetes}",
            field="--nodes",
            hint="use `--nodes simulated`",
        )
    return replace(before, clusters=tuple(result.values()))


def _extend_cluster(cluster: ClusterSpec, nodes: Nodes | None, workers: int | None, names: list[str]) -> ClusterSpec:
    """Return an existing cluster with the number of nodes that the user asked for.

    It may get more nodes, but not lose any, nor get nodes of another kind.
    """
    if cluster.name not in names:
        return cluster
    if nodes and nodes != cluster.nodes:
        raise ConfigurationError(
            f"cluster {cluster.name!r} has {cluster.nodes} nodes already",
            field="--nodes",
            hint="give the new lab another --name, or take this one down first",
        )
    if workers is not None and workers < cluster.workers:
        raise ConfigurationError(
            f"cluster {cluster.name!r} has {count_noun(cluster.workers, 'node')}; the lab takes none away",
            field="--workers",
            hint="take the lab down first, or delete Node objects with kubectl",
        )
    return replace(cluster, workers=workers) if workers else cluster


def _new_cluster(name: str, nodes: Nodes | None, workers: int | None, used_networks: list[str]) -> ClusterSpec:
    """Return a new cluster with free ports, and with a free network if its nodes are real."""
    nodes = nodes or default_nodes()
    workers = 2 if workers is None else workers
    if nodes == "real":
        if sys.platform != "linux":
            raise ConfigurationError(
                f"real nodes need Linux, and this is {sys.platform}", field="--nodes", hint=ALTERNATIVES
            )
        if os.geteuid() != 0:
            raise ConfigurationError(
                "real nodes need root", field="--nodes", hint=f"run it with sudo; or {ALTERNATIVES}"
            )
        packages.require_programs({"ip": "iproute2"}, "real nodes")
        free_network = network.free_network(used_networks)
        return ClusterSpec(name, nodes, workers, {**_choose_ports(), "kube-apiserver": 6443}, free_network)
    return ClusterSpec(name, nodes, workers, _choose_ports())


# Below where systems take the near ends of outgoing connections from: such a one would hold a port for a moment, and a
# program that starts in that moment would not get it.
PORTS = range(20000, 32000)


def _choose_ports() -> dict[str, int]:
    """Choose free ports of loopback, at random.

    The ports of labs that are stopped, or start at this moment, are not free.
    """
    clusters = [cluster for lab in specs.load_readable_specs() for cluster in lab.clusters]
    used_ports = {port for cluster in clusters for port in cluster.ports.values()}
    ports: dict[str, int] = {}
    while len(ports) < len(PROGRAMS):
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in used_ports and port not in ports.values():
            ports[PROGRAMS[len(ports)]] = port
    return ports
