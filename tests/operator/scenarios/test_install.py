"""The operator as a Deployment on real nodes, with the rights that its own installation gives it and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.testing import Cluster
from tests.operator.app_on_nodes import PATIENCE, SMALL

ACCOUNT = "system:serviceaccount:fleet-system:fleet-operator"
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "backups"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
}
ETCD = {
    "apiVersion": "fleet.dev/v1alpha1",
    "kind": "Etcd",
    "metadata": {"name": "registry"},
    "spec": {
        "version": "3.5",
        "members": 1,
        **SMALL,
        "backup": {"schedule": "0 3 1 1 *", "to": {"claim": {"claim": "backups"}}},
    },
}


class Desk:
    """A shell at which somebody types `fleet`, outside any repository."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory

    def fleet(self, *arguments: str, code: int = 0, given: str | None = None, timeout: float = 400) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *arguments],
            cwd=self.directory,
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def app(self) -> dict[str, Any]:
        return self.cluster.get("etcd", "registry")

    def becomes(self, health: str, seconds: float = PATIENCE) -> None:
        self.cluster.wait(f"health {health}", lambda: self.app()["status"]["health"] == health, seconds)

    def lives(self) -> dict[str, tuple[str, int]]:
        """The pods of the app: which ones, and how often their containers were started again."""
        pods = self.cluster.get("pods", "-l", "app.kubernetes.io/name=etcd")["items"]
        return {
            pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
            for pod in pods
        }


@pytest.fixture
def desk(real_cluster: Cluster, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(real_cluster, tmp_path)
    yield made
    made.fleet("operator", "uninstall", "--yes")


@pytest.mark.real_nodes
@pytest.mark.timeout(1800)
def test_an_app_lives_through_the_operators_coming_and_going(desk: Desk) -> None:
    cluster, namespace = desk.cluster, desk.cluster.namespace
    assert "1 replica is ready" in desk.fleet("operator", "install")

    # Where no binding says so, it may do nothing, and says that.
    cluster.apply(CLAIM, ETCD)
    desk.becomes("Degraded")
    blocked = next(one for one in desk.app()["status"]["conditions"] if one["type"] == "Blocked")
    assert (blocked["status"], blocked["reason"]) == ("True", "NoRights")
    assert f"in namespace {namespace}" in blocked["message"]
    assert f"fleet operator allow {namespace}" in blocked["message"]
    assert f"fleet operator allow {namespace}" in desk.fleet("operator", "status")
    assert desk.lives() == {}

    # With one it does everything, and is refused nothing.
    begin = cluster.audit.mark()
    desk.fleet("operator", "allow", namespace)
    desk.becomes("Healthy")
    mark = cluster.audit.mark()
    assert desk.fleet("connect", "registry", "--", "put", "kept", "yes") == "OK\n"
    assert desk.fleet("connect", "registry", "-i", "--", "put", "piped", given="from standard input") == "OK\n"
    assert desk.fleet("connect", "registry", "--", "get", "piped", "--print-value-only") == "from standard input\n"
    assert "unknown command" in desk.fleet("connect", "registry", "--", "nonsense", code=1)
    made = json.loads(desk.fleet("backup", "registry", "-o", "json"))
    assert (made["state"], made["place"].rpartition("/")[0]) == ("complete", "claim/backups")
    asked_for = json.loads(desk.fleet("operations", "registry", "-o", "json"))
    assert [(one["operation"], one["phase"]) for one in asked_for] == [(made["operation"], "Succeeded")]
    assert made["size"] > 0 and made["checksum"].startswith("sha256:")
    listed = json.loads(desk.fleet("backup", "registry", "--list", "-o", "json"))
    assert [(one["state"], one["checksum"]) for one in listed] == [("complete", made["checksum"])]
    asked = [one for one in cluster.audit.requests(mark, user=ACCOUNT) if one.namespace == namespace]
    assert [one for one in asked if one.code == 403] == []
    written = [one for one in cluster.audit.writes(begin, user=ACCOUNT) if one.namespace == namespace]
    assert {"statefulsets", "secrets", "configmaps", "services", "cronjobs"} <= {one.resource for one in written}
    assert [one for one in written if one.code == 403] == []

    # Installed again, otherwise: the operator restarts, the app does not.
    before = desk.lives()
    assert len(before) == 1
    assert "2 replicas are ready" in desk.fleet("operator", "install", "--replicas", "2")
    state = json.loads(desk.fleet("operator", "status", "-o", "json"))[cluster.context]
    assert (state["ready"], state["apps"], state["withoutRights"]) == (2, {"Healthy": 1}, [])
    cluster.wait(
        "one of the two leads",
        lambda: json.loads(desk.fleet("operator", "status", "-o", "json"))[cluster.context]["leader"].startswith(
            "fleet-operator-"
        ),
    )
    assert desk.lives() == before

    # Gone: the app does not notice, and nothing hangs.
    assert "1 app runs on" in desk.fleet("operator", "uninstall", "--yes")
    assert desk.lives() == before
    assert desk.fleet("connect", "registry", "--", "get", "kept", "--print-value-only") == "yes\n"
    assert cluster.kubectl("get", "crd", "etcds.fleet.dev", "-o", "name")
    assert "finalizers" not in desk.app()["metadata"]
    cluster.kubectl("delete", "etcd", "registry", "--timeout=10s")
    assert desk.lives() == before, "what an app is made of is not collected"
