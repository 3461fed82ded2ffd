"""Real nodes: containers run, find each other by name, keep data, and reach what a pod may reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.lab.images.archive import write_archive, write_layer
from fleet.lab.images.recipes import find_recipes
from fleet.testing import Cluster

pytestmark = pytest.mark.real_nodes

ETCD = "localhost/fleet-lab/etcd:3.5"
OPERATOR = find_recipes("fleet-operator")[0].reference


def etcd(replicas: int) -> list[dict[str, Any]]:
    """A plain etcd of three members, as a person would write it by hand."""
    names = ",".join(f"etcd-{i}=http://etcd-{i}.etcd:2380" for i in range(replicas))
    script = (
        "exec etcd --name=$(hostname) --data-dir=/data/etcd --listen-client-urls=http://0.0.0.0:2379"
        " --listen-peer-urls=http://0.0.0.0:2380 --advertise-client-urls=http://$(hostname).etcd:2379"
        f" --initial-advertise-peer-urls=http://$(hostname).etcd:2380 --initial-cluster={names}"
    )
    labels = {"app": "etcd"}
    container = {
        "name": "etcd",
        "image": ETCD,
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "readinessProbe": {"tcpSocket": {"port": 2379}, "periodSeconds": 1},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "256Mi"}}},
    }
    ports = [{"name": "client", "port": 2379}, {"name": "peer", "port": 2380}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "etcd"},
            "spec": {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True, "ports": ports},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "etcd-client"},
            "spec": {"selector": labels, "ports": ports[:1]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "etcd"},
            "spec": {
                "serviceName": "etcd",
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [container],
                        "topologySpreadConstraints": [spread],
                        "terminationGracePeriodSeconds": 1,
                    },
                },
                "volumeClaimTemplates": [claim],
            },
        },
    ]


def pod(name: str, image: str, command: list[str], **spec: Any) -> dict[str, Any]:
    container = {"name": name, "image": image, "command": command}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_three_etcd_members_over_two_nodes_are_one_cluster(real_cluster: Cluster) -> None:
    cluster = real_cluster
    cluster.images("etcd:3.5")
    cluster.apply(*etcd(3))
    cluster.kubectl("rollout", "status", "statefulset/etcd", "--timeout=90s")

    pods = cluster.get("pods")["items"]
    assert {one["spec"]["nodeName"] for one in pods} == set(cluster.node_names)
    assert {claim["status"]["phase"] for claim in cluster.get("pvc")["items"]} == {"Bound"}

    # By each member's DNS name, from each pod: name resolution and the way across nodes.
    members = ",".join(f"http://etcd-{i}.etcd.{cluster.namespace}.svc.cluster.local:2379" for i in range(3))
    for i in range(3):
        health = cluster.execute(f"etcd-{i}", "sh", "-c", f"etcdctl --endpoints={members} endpoint health 2>&1")
        assert health.count("is healthy") == 3, health

    # Through a Service's own address, and found again on another member and after all pods were lost.
    cluster.execute("etcd-0", "etcdctl", "--endpoints=http://etcd-client:2379", "put", "key", "written")
    assert "written" in cluster.execute("etcd-2", "etcdctl", "get", "key", "--print-value-only")
    cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    cluster.kubectl("rollout", "status", "statefulset/etcd", "--timeout=90s")
    cluster.wait(
        "the key is there after a restart",
        lambda: "written" in cluster.execute("etcd-1", "etcdctl", "get", "key", "--print-value-only"),
    )
    assert "3.5" in cluster.kubectl("exec", "etcd-0", "--", "etcd", "--version")
    assert cluster.kubectl("logs", "etcd-0").strip()


def test_the_older_etcd_is_another_minor_version(real_cluster: Cluster) -> None:
    real_cluster.images("etcd:3.4")
    real_cluster.apply(pod("old", "localhost/fleet-lab/etcd:3.4", ["etcd", "--version"]))
    real_cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/old", "--timeout=60s")
    assert "etcd Version: 3.4" in real_cluster.kubectl("logs", "old")


def test_the_operator_image_reaches_the_api_server_with_its_service_account(real_cluster: Cluster) -> None:
    real_cluster.images("fleet-operator")
    real_cluster.kubectl("create", "serviceaccount", "operator")
    security = {"runAsNonRoot": True}
    command = ["python3", "-m", "fleet_operator", "check"]
    real_cluster.apply(pod("operator", OPERATOR, command, serviceAccountName="operator", securityContext=security))
    try:
        real_cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/operator", "--timeout=60s")
    except Exception as error:
        raise AssertionError(real_cluster.kubectl("describe", "pod/operator")) from error
    said = real_cluster.kubectl("logs", "operator")
    assert f"system:serviceaccount:{real_cluster.namespace}:operator" in said
    assert "v1." in said


def test_an_image_of_a_users_own_runs(real_cluster: Cluster, tmp_path: Path) -> None:
    from fleet.cli import run
    from fleet.lab.programs.build import MODULES, build_module

    root = tmp_path / "root"
    root.mkdir()
    (root / "mine").write_bytes((build_module(MODULES["pause"]) / "pause").read_bytes())
    (root / "mine").chmod(0o755)
    write_layer(root, tmp_path / "layer.tar")
    write_archive(tmp_path / "mine.tar", "localhost/mine:1", [tmp_path / "layer.tar"], ["/mine"])
    assert run(["lab", "image", "load", "--name", real_cluster.lab.spec.name, str(tmp_path / "mine.tar")]) == 0
    real_cluster.apply(pod("mine", "localhost/mine:1", ["/mine"]))
    real_cluster.kubectl("wait", "--for=condition=Ready", "pod/mine", "--timeout=60s")


def test_nothing_listens_outside_loopback_and_the_labs_networks(real_cluster: Cluster) -> None:
    import psutil

    from fleet.lab.programs import process

    spec = real_cluster.lab.spec.clusters[0]
    ours = {one.pid for one in process.running_processes(real_cluster.lab.directory).values()}
    listening = {
        connection.laddr[0]
        for connection in psutil.net_connections("inet")
        if connection.laddr and connection.pid in ours and connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1", spec.gateway}
