"""Volumes of real nodes: as large as their claim, growing with it, bound to their node, gone with it."""

from __future__ import annotations

import secrets
import subprocess
import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import Lab
from fleet.lab.cluster import volumes
from fleet.lab.cluster import volumes as loops
from fleet.lab.cluster.volumes import LabVolume
from fleet.lab.programs import process
from fleet.testing import Cluster
from tests.lab.test_real_nodes import ETCD, pod

MIB = 1 << 20
real = pytest.mark.real_nodes


def claim(name: str, size: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }


def user_of(name: str, pod_name: str = "user", script: str = "sleep 600", **spec: Any) -> dict[str, Any]:
    """A pod that has the claim's volume at /data; not root, and without a group of its own for it."""
    found = pod(pod_name, ETCD, ["sh", "-c", script], securityContext={"runAsUser": 1000}, **spec)
    found["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    found["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return found


def used(cluster: Cluster, size: str, script: str = "sleep 600", name: str = "data") -> LabVolume:
    """A volume of that size in a pod that runs."""
    cluster.images("etcd:3.5")
    cluster.apply(claim(name, size), user_of(name, script=script))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/user", "--timeout=60s")
    return volumes.find_claim_volume(cluster.lab, cluster.name, cluster.namespace, name)


def fill(cluster: Cluster, file: str) -> int:
    """Write until there is an error, which must be that the disk is full; returns how many MiB there were room for."""
    said = cluster.execute("user", "sh", "-c", f"LC_ALL=C dd if=/dev/zero of=/data/{file} bs=1M 2>&1 || true")
    assert "No space left on device" in said
    return int(cluster.execute("user", "stat", "--format=%s", f"/data/{file}")) // MIB


def grow(cluster: Cluster, size: str) -> None:
    patch = {"spec": {"resources": {"requests": {"storage": size}}}}
    cluster.kubectl("patch", "pvc", "data", "--type=merge", "-p", orjson.dumps(patch).decode())
    cluster.wait(
        "the claim has its new size", lambda: cluster.get("pvc", "data")["status"]["capacity"]["storage"] == size
    )


def usage(cluster: Cluster, node: str) -> dict[str, int]:
    """What the kubelet says about the volume of the claim `data`: capacity, available, used, in bytes."""
    summary = orjson.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))
    for one in summary["pods"]:
        for volume in one.get("volume", []):
            if volume.get("pvcRef") == {"name": "data", "namespace": cluster.namespace}:
                return {key.removesuffix("Bytes"): volume[key] for key in ("capacityBytes", "usedBytes")}
    raise LookupError("the kubelet does not know the volume yet")


@real
def test_a_disk_fills_at_the_size_of_its_claim_and_grows_under_a_running_pod(real_cluster: Cluster) -> None:
    volume = used(real_cluster, "64Mi")
    room = fill(real_cluster, "first")
    assert 50 <= room < 64
    real_cluster.wait("it is full", lambda: usage(real_cluster, volume.node)["used"] >= 50 * MIB, timeout=40)
    before = usage(real_cluster, volume.node)
    assert 56 * MIB < before["capacity"] <= 64 * MIB

    grow(real_cluster, "256Mi")
    assert 180 <= fill(real_cluster, "second") < 256 - room
    after = real_cluster.get("pod", "user")["status"]["containerStatuses"][0]
    assert after["restartCount"] == 0
    assert real_cluster.get("pv", volume.name)["spec"]["capacity"] == {"storage": "256Mi"}
    assert "conditions" not in real_cluster.get("pvc", "data")["status"]
    grown = lambda: usage(real_cluster, volume.node)["capacity"] > 230 * MIB  # noqa: E731
    real_cluster.wait("the kubelet counts the new size", grown, timeout=40)
    metrics = real_cluster.kubectl("get", "--raw", f"/api/v1/nodes/{volume.node}/proxy/metrics")
    label = f'{{namespace="{real_cluster.namespace}",persistentvolumeclaim="data"}}'
    assert f"kubelet_volume_stats_capacity_bytes{label}" in metrics


@real
def test_a_volume_is_bound_to_its_node(real_cluster: Cluster) -> None:
    volume = used(real_cluster, "64Mi")
    assert volume.node == real_cluster.get("pod", "user")["spec"]["nodeName"]
    elsewhere = next(name for name in real_cluster.node_names if name != volume.node)
    place = {"kubernetes.io/hostname": elsewhere}
    real_cluster.apply(user_of("data", "stranger", nodeSelector=place))

    def refused() -> bool:
        status = real_cluster.get("pod", "stranger")["status"]
        return "PersistentVolume's node affinity" in status["conditions"][0].get("message", "")

    real_cluster.wait("it is not scheduled", refused, timeout=90)


@real
def test_a_deleted_claim_frees_its_device_and_its_file(real_cluster: Cluster) -> None:
    volume = used(real_cluster, "64Mi", "echo kept > /data/file; sync; sleep 600")
    assert volume.device
    assert volume.mount
    assert (volume.mount / "file").read_text() == "kept\n"  # the same files, seen from outside
    assert volumes.find_pod_volumes(real_cluster.lab, real_cluster.name, real_cluster.namespace, "user") == [volume]
    assert volume.file.stat().st_blocks * 512 < 16 * MIB  # no more than was written
    real_cluster.kubectl("delete", "pod/user", "pvc/data")
    real_cluster.wait("the file is gone", lambda: not volume.file.parent.exists(), timeout=90)
    assert not volume.device.exists()
    assert volume.device not in loops.find_devices(real_cluster.lab.directory)
    real_cluster.wait("the object is gone", lambda: volume.name not in real_cluster.kubectl("get", "pv"), timeout=90)
    with pytest.raises(NotFoundError, match="no claim 'data'"):
        volumes.find_claim_volume(real_cluster.lab, real_cluster.name, real_cluster.namespace, "data")


@real
def test_a_lost_disk_is_not_made_again(real_cluster: Cluster) -> None:
    volume = used(real_cluster, "64Mi")
    assert volume.device
    real_cluster.kubectl("delete", "pod/user", "--grace-period=0")
    path = (real_cluster.lab, real_cluster.name, real_cluster.namespace, "data")
    real_cluster.wait("it is unmounted", lambda: volumes.find_claim_volume(*path).mount is None)
    volume.file.unlink()
    loops.release_device(volume.device)
    real_cluster.apply(user_of("data"))
    said = lambda: "MountVolume" in real_cluster.kubectl("events", "--for=pod/user")  # noqa: E731
    real_cluster.wait("the node cannot mount it", said, timeout=90)
    assert not volume.file.exists()
    real_cluster.kubectl("delete", "pod/user", "pvc/data", "--grace-period=0")
    real_cluster.wait("the rest is gone", lambda: not volume.file.parent.exists(), timeout=90)


@real
def test_what_a_killed_provisioner_left_half_done_is_finished_or_removed(real_cluster: Cluster) -> None:
    lab, name = real_cluster.lab, real_cluster.name
    real_cluster.images("etcd:3.5")
    process.running_processes(lab.directory)[f"{name}/provisioner"].kill()
    real_cluster.apply(claim("data", "64Mi"), user_of("data"))
    chosen = lambda: "volume.kubernetes.io/selected-node" in real_cluster.get("pvc", "data")["metadata"]["annotations"]  # noqa: E731
    real_cluster.wait("a node is chosen", chosen, timeout=90)
    found = real_cluster.get("pvc", "data")["metadata"]
    # Of this claim there is a file that was not finished; of another one, deleted meanwhile, all but the object.
    root = (
        lab.plane(lab.spec.cluster(name)).directory
        / "volumes"
        / found["annotations"]["volume.kubernetes.io/selected-node"]
    )
    begun = root / f"pvc-{found['uid']}"
    begun.mkdir(parents=True)
    (begun / "disk.partial").write_bytes(b"half a file system")
    folder = root / f"pvc-{uuid.uuid4()}"
    forgotten = _forgotten(folder)
    assert forgotten in loops.find_devices(lab.directory)
    Lab.up(lab.spec.name)
    real_cluster.kubectl("wait", "--for=condition=Ready", "pod/user", "--timeout=60s")
    real_cluster.wait("nothing is left of the other", lambda: not folder.exists(), timeout=90)
    assert forgotten not in loops.find_devices(lab.directory)
    assert {path.name for path in begun.iterdir()} == {"disk", "device"}


def _forgotten(folder: Path) -> Path:
    """A disk as the provisioner makes one, up to its object."""
    device = Path(f"/dev/loop{secrets.choice(range(4096, 65536))}")
    folder.mkdir()
    (folder / "device").symlink_to(device)
    with (folder / "disk").open("wb") as disk:
        disk.truncate(16 * MIB)
    subprocess.run(["losetup", device, folder / "disk"], check=True)
    return device


def test_volumes_of_simulated_nodes_are_objects_that_grow(cluster: Cluster) -> None:
    if cluster.lab.spec.cluster(cluster.name).network:
        pytest.skip("the nodes of this lab are real")
    cluster.apply(claim("data", "1Gi"), user_of("data"))
    cluster.wait("it is bound", lambda: cluster.get("pvc", "data")["status"]["phase"] == "Bound")
    grow(cluster, "2Gi")
    volume = cluster.get("pv", cluster.get("pvc", "data")["spec"]["volumeName"])
    assert volume["spec"]["capacity"] == {"storage": "2Gi"}
    assert not Path(volume["spec"]["local"]["path"]).exists()
    with pytest.raises(ConfigurationError, match="simulated"):
        volumes.find_claim_volume(cluster.lab, cluster.name, cluster.namespace, "data")
    with pytest.raises(ResourceError, match="can not be less than"):
        cluster.kubectl("patch", "pvc", "data", "-p", '{"spec": {"resources": {"requests": {"storage": "1Gi"}}}}')
