"""Simulated nodes: what the provisioner plays of them, and that no address of theirs leads anywhere."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.testing import Cluster, Faults

# A way out of its own, with a neighbour who takes every packet: what is counted there would have left the machine.
WAY_OUT = """
set -e
ip link set lo up
ip link add out type veth peer name far
for device in out far; do echo 1 > /proc/sys/net/ipv6/conf/$device/disable_ipv6; ip link set $device up; done
ip address add 192.0.2.1/24 dev out
ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev out
ip route add default via 192.0.2.2
exec "$@"
"""
CALL = """
import socket, sys

def sent():
    line = next(line for line in open("/proc/self/net/dev") if line.strip().startswith("out:"))
    return int(line.split()[9])

before = sent()
for address in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as caller:
            caller.settimeout(0.2)
            try:
                caller.connect((address, 2379))
                caller.send(b"hello")
            except OSError:
                pass
print(sent() - before)
"""


def container(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "nobody/runs:it", **more}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container("main")], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def service(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"selector": {"app": name}, "ports": [{"port": 2379}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def addresses(cluster: Cluster) -> set[str]:
    """All that somebody may read in the cluster and talk to."""
    listed = [one for kind in ("pods", "services", "endpointslices") for one in listing(cluster, kind)]
    return {address for one in [*listed, *listing(cluster, "nodes")] for address in of(one)}


def listing(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get(kind)["items"]
    return found


def of(found: dict[str, Any]) -> Iterable[str]:
    status, spec = found.get("status", {}), found.get("spec", {})
    yield from (one["ip"] for field in ("podIPs", "hostIPs") for one in status.get(field) or ())
    yield from (one["address"] for one in status.get("addresses") or () if one["type"] != "Hostname")
    yield from (one for one in spec.get("clusterIPs") or () if one != "None")
    yield from (one for endpoint in found.get("endpoints") or () for one in endpoint["addresses"])


def packets_that_leave(*to: str) -> int:
    command = ["unshare", "--net", "sh", "-c", WAY_OUT, "sh", sys.executable, "-c", CALL, *to]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture
def readable(cluster: Cluster) -> set[str]:
    """The addresses that a cluster with simulated pods, nodes and services tells."""
    cluster.apply(
        workload("Deployment", "web"),
        workload("DaemonSet", "agent", hostNetwork=True),
        service("web"),
        service("agent", clusterIP="None"),
    )
    cluster.kubectl("rollout", "status", "deployment/web", "daemonset/agent", "--timeout=60s")
    return addresses(cluster)


def test_simulated_pods_nodes_and_services_have_addresses_of_loopback(cluster: Cluster, readable: set[str]) -> None:
    pods = {pod["status"]["podIP"] for pod in listing(cluster, "pods") if not pod["spec"].get("hostNetwork")}
    assert len(readable) > len(pods) >= 1
    assert {address for address in readable if not ipaddress.ip_address(address).is_loopback} == set()
    said = [event["reason"] for event in listing(cluster, "events") if "Endpoint" in event["reason"]]
    assert said == [], "no controller fails because of them"


def test_nothing_that_is_sent_to_simulated_pods_nodes_and_services_leaves_the_machine(readable: set[str]) -> None:
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root on Linux can make a network whose packets are counted")
    assert packets_that_leave("10.0.0.5") > 0, "the count sees what leaves"
    assert packets_that_leave(*sorted(readable)) == 0


def test_simulated_pods_run_succeed_and_go_as_real_ones_do(cluster: Cluster) -> None:
    before = [container("once"), container("beside", restartPolicy="Always")]
    gate = "example.com/let-in"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container("main")]}}},
    }
    cluster.apply(workload("StatefulSet", "db", initContainers=before, readinessGates=[{"conditionType": gate}]), job)
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    cluster.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=60s")
    pod = cluster.get("pod", "db-0")
    states = {
        one["name"]: next(iter(one["state"]))
        for field in ("initContainerStatuses", "containerStatuses")
        for one in pod["status"][field]
    }
    assert states == {"once": "terminated", "beside": "running", "main": "running"}
    conditions = {one["type"]: one["status"] for one in pod["status"]["conditions"]}
    assert {conditions[kind] for kind in ("Initialized", "PodScheduled", "ContainersReady", "Ready", gate)} == {"True"}
    cluster.kubectl("delete", "pod", "db-0", "--timeout=60s")
    before_it, name = pod["status"]["podIP"], "pod/db-0"

    def has_another() -> bool:
        return bool(cluster.get(name)["status"].get("podIP", before_it) != before_it)

    cluster.wait("its successor has an address of its own", has_another)


def test_simulated_nodes_have_no_names_to_serve(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="coredns does not run"):
        Faults(cluster).kill("coredns")
