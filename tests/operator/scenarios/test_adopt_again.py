"""One etcd with what makes others hard to keep, on a real node: started by a script, its pods updated by whoever
deletes them, its claims gone with it, and variables that its client trips over. It is taken over, restarted, given
back, taken over again and at last taken out: its data is there to the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.testing.git import git
from tests.operator import installed_rights
from tests.operator.app_on_nodes import App, Object
from tests.operator.etcd.under_test import ETCD
from tests.operator.existing_setups import Desk

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(600)]
GOES = {"whenDeleted": "Delete", "whenScaled": "Delete"}
STAYS = {"whenDeleted": "Retain", "whenScaled": "Retain"}
URL = "http://$HOSTNAME.kv"
SCRIPT = f"""
# starts etcd
mkdir -p /var/lib/etcd/data && echo starting etcd
exec /usr/bin/etcd --name=$(hostname) --data-dir=/var/lib/etcd/data \\
  --listen-client-urls=http://0.0.0.0:${{PORT:-2379}} --listen-peer-urls=http://0.0.0.0:2380 \\
  --advertise-client-urls={URL}:2379 \\
  --initial-advertise-peer-urls={URL}:2380 --initial-cluster=kv-0=http://kv-0.kv:2380
"""


def _objects() -> list[Object]:
    container = {
        "name": "etcd",
        "image": ETCD.image.format(series="3.4"),
        "command": ["/bin/sh", "-c", SCRIPT],
        "env": [{"name": "ETCDCTL_ENDPOINTS", "value": "http://127.0.0.1:1"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/etcd"}],
        "readinessProbe": {"tcpSocket": {"port": 2379}, "periodSeconds": 1},
    }
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "256Mi"}}}
    ports = [{"name": "client", "port": 2379}, {"name": "peer", "port": 2380}]
    spec = {
        "serviceName": "kv",
        "replicas": 1,
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": GOES,
        "selector": {"matchLabels": {"app": "kv"}},
        "template": {
            "metadata": {"labels": {"app": "kv"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": size}],
    }
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": "kv"}, "ports": ports}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kv"}, "spec": service},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "kv"}, "spec": spec},
    ]


def test_what_is_hard_to_keep_is_taken_over_twice_and_its_data_stays(unattended: App, tmp_path: Path) -> None:
    cluster = unattended.cluster
    cluster.images("etcd")
    app = App(cluster, unattended.operator, "kv")

    def found() -> Object:
        return cluster.get("statefulset", "kv")

    def serves() -> bool:
        return bool(found().get("status", {}).get("readyReplicas") == 1)

    def pod() -> str:
        return str(cluster.get("pod", "kv-0")["metadata"]["uid"])

    def taken() -> bool:
        return app.condition("Adopted").get("status") == "True" and app.is_ready()

    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(_objects()))
    app.wait("it serves", serves)
    _updated_by_hand(app, pod)
    app.wait("it serves again", serves)
    ctl = ("exec", "kv-0", "--", "env", "-u", "ETCDCTL_ENDPOINTS", "etcdctl")
    cluster.kubectl(*ctl, "put", "word", "kept")
    app.operator.kubeconfig = installed_rights.installed(cluster, tmp_path)
    installed_rights.allow(cluster)
    app.operator.start()

    desk, first = Desk.make(cluster, tmp_path / "repository"), pod()
    print(desk.fleet("adopt", "--namespace", cluster.namespace, "--branch", "adopt"))
    git(desk.root, "merge", "--quiet", "adopt")
    assert "as it runs: unchanged, restarts 0" in desk.fleet("preview")
    desk.fleet("sync", "--no-status")
    app.wait("it is taken over", taken)
    assert (pod(), found()["spec"]["persistentVolumeClaimRetentionPolicy"]) == (first, STAYS)

    desk.fleet("roll", "kv")
    rolled = pod()
    assert rolled != first
    (container,) = found()["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["/usr/bin/etcd"]
    assert "word" in cluster.kubectl(*ctl, "get", "word")

    desk.fleet("disconnect", "kv", "--write", "given-back.yaml")
    _as_before(found(), desk.root / "given-back.yaml")
    desk.fleet("sync", "--no-status")
    app.wait("it is taken over again", taken)
    assert pod() == rolled
    assert found()["metadata"]["labels"]["fleet.dev/app"] == "kv", "it is the app's, and goes with it"

    (file,) = (one for one in (desk.root / "stacks").glob("*.py") if one.name != "empty.py")
    file.write_text(file.read_text().partition("    #")[0] + "    pass\n")
    desk.commit("Take it out")
    desk.fleet("sync", "--no-status", "--allow-deletes", "9")
    app.wait("it is gone", lambda: not cluster.get("statefulsets,pods")["items"])
    (claim,) = cluster.get("pvc")["items"]
    assert claim["metadata"]["name"] == "data-kv-0"
    assert {"deletionTimestamp", "ownerReferences"}.isdisjoint(claim["metadata"])


def _updated_by_hand(app: App, pod: Any) -> None:
    """What its controller calls the current revision is the first one for ever."""
    before, note = pod(), '{"spec": {"template": {"metadata": {"annotations": {"note": "2"}}}}}'
    app.cluster.kubectl("patch", "statefulset", "kv", "-p", note, "--field-manager=kubectl-client-side-apply")
    app.cluster.kubectl("delete", "pod", "kv-0")
    app.wait("it has another pod", lambda: pod() != before)
    status = app.cluster.get("statefulset", "kv")["status"]
    assert status["currentRevision"] != status["updateRevision"]


def _as_before(found: Object, file: Path) -> None:
    documents = list(yaml.safe_load_all(file.read_text()))
    (written,) = [one for one in documents if one["kind"] == "StatefulSet"]
    for one in (found, written):
        assert one["spec"]["updateStrategy"] == {"type": "OnDelete"}
        assert one["spec"]["persistentVolumeClaimRetentionPolicy"] == GOES
        assert not [name for name in one["metadata"].get("labels") or {} if name.startswith("fleet.dev/")]
        assert not [name for name in one["metadata"].get("annotations") or {} if name.startswith("fleet.dev/")]
    assert {"Service", "ConfigMap"} <= {one["kind"] for one in documents}
