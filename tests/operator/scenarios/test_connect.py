"""What `fleet connect --print` tells is what members serve, also while git is ahead of them. On a real server."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fleet.apps.etcd import layout as layouts
from fleet.apps.etcd.layout import Layout
from fleet.kit.adoption.encryption import Stage
from fleet.kit.members import LEDGER, Ledger, MemberRecord
from fleet.testing import Cluster
from tests.operator.app_on_nodes import definitions
from tests.served import wait_served

PLAIN = "http://{pod}.etcd.shop.svc:2379"


def noted(stage: Stage) -> dict[str, object]:
    layout = Layout("etcd", "etcd", "data", PLAIN.replace("2379", "2380"), PLAIN, 2379, secured=stage)
    ledger = Ledger("c1", {"etcd-0": MemberRecord("settled", "a0")}, layout=layouts.write(layout))
    metadata = {"name": "registry-members", "annotations": {LEDGER: ledger.write()}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.parametrize(("stage", "scheme"), [("opening", "http"), ("open", "https")])
def test_certificates_are_told_of_only_when_members_serve_them(cluster: Cluster, stage: Stage, scheme: str) -> None:
    cluster.kubectl("apply", "--server-side", "-f", "-", input=definitions())
    wait_served(cluster, "etcds.fleet.dev")
    spec = {
        "version": "3.5",
        "members": 1,
        "tls": {"enabled": True},
        "adopt": {"identity": "c1", "statefulSet": "etcd"},
    }
    app = {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": {"name": "registry"}, "spec": spec}
    cluster.apply(app, noted(stage))
    where = [f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}", f"--namespace={cluster.namespace}"]
    command = [sys.executable, "-m", "fleet", "connect", "registry", *where, "--print", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["url"].startswith(f"{scheme}://") and told["environment"]["ETCDCTL_ENDPOINTS"] == told["url"]
    assert ("ETCDCTL_CERT" in told["environment"]) == (scheme == "https")
