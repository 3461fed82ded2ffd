"""Decide what a lab shall be: what was asked for, completed by what is there already and by what is free."""

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
from fleet.lab.spec import KUBERNETES, MOST_WORKERS, ClusterSpec, LabSpec, Nodes, minor_of, resolve
from fleet.text import count_noun

INSTEAD = (
    "use `--nodes simulated` (API servers that are real, nodes that are not), or any cluster of your own: "
    "`kind create cluster`, then `fleet cluster add` with its context"
)


def default_nodes() -> Nodes:
    return "real" if sys.platform == "linux" and os.geteuid() == 0 else "simulated"


def plan(
    name: str,
    clusters: Sequence[str],
    *,
    nodes: Nodes | None,
    workers: int | None,
    kubernetes: str | None,
    owner: Identity | None,
) -> LabSpec:
    try:
        before = LabSpec.load(name)
    except NotFoundError:
        before = LabSpec(name, (), resolve(kubernetes), owner)
    if kubernetes and resolve(kubernetes) != before.kubernetes:
        raise ConfigurationError(
            f"lab {name!r} is Kubernetes {before.kubernetes} already",
            field="--kubernetes",
            hint="give the new lab another --name, or take this one down first",
        )
    if workers is not None and not 0 <= workers <= MOST_WORKERS:
        raise ConfigurationError(
            f"{workers} workers are not possible", field="--workers", hint=f"0 to {MOST_WORKERS} per cluster"
        )
    wanted = list(clusters) or [cluster.name for cluster in before.clusters] or ["lab"]
    for cluster in wanted:
        specs.check_name(cluster, "cluster")
    if len(set(wanted)) != len(wanted):
        raise ConfigurationError("a cluster is named twice", field="--clusters", hint="each name once: a,b,c")
    known = {cluster.name: cluster for cluster in before.clusters}
    result = {cluster.name: _same(cluster, nodes, workers, wanted) for cluster in before.clusters}
    for cluster in wanted:
        if cluster not in known:
            taken = [one.network for one in result.values() if one.network]
            result[cluster] = _new(cluster, nodes, workers, taken)
    if minor_of(before.kubernetes) != minor_of(KUBERNETES) and any(one.network for one in result.values()):
        raise ConfigurationError(
            f"real nodes are Kubernetes {KUBERNETES}, which is too new for a control plane of {before.kubernetes}",
            field="--nodes",
            hint="use `--nodes simulated`",
        )
    return replace(before, clusters=tuple(result.values()))


def _same(cluster: ClusterSpec, nodes: Nodes | None, workers: int | None, wanted: list[str]) -> ClusterSpec:
    """A cluster that is there: it may get more nodes, but not become another one."""
    if cluster.name not in wanted:
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


def _new(name: str, nodes: Nodes | None, workers: int | None, taken: list[str]) -> ClusterSpec:
    nodes = nodes or default_nodes()
    workers = 2 if workers is None else workers
    if nodes == "real":
        if sys.platform != "linux":
            raise ConfigurationError(
                f"real nodes need Linux, and this is {sys.platform}", field="--nodes", hint=INSTEAD
            )
        if os.geteuid() != 0:
            raise ConfigurationError("real nodes need root", field="--nodes", hint=f"run it with sudo; or {INSTEAD}")
        packages.require({"ip": "iproute2"}, "real nodes")
        free = network.free_network(taken)
        return ClusterSpec(name, nodes, workers, {**_free_ports(), "kube-apiserver": 6443}, free)
    return ClusterSpec(name, nodes, workers, _free_ports())


# Below where systems take the near ends of outgoing connections from: such a one would hold a port for a moment, and a
# program that starts in that moment would not get it.
PORTS = range(20000, 32000)


def _free_ports() -> dict[str, int]:
    """Ports of loopback that are free, chosen at random, and not those of a lab that is stopped or starts just now."""
    taken = {port for lab in specs.all_readable() for one in lab.clusters for port in one.ports.values()}
    found: dict[str, int] = {}
    while len(found) < len(PROGRAMS):
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in taken and port not in found.values():
            found[PROGRAMS[len(found)]] = port
    return found
