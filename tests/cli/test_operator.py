"""`fleet operator` on a real API server with simulated nodes: what it puts there, keeps, refuses and takes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.testing import Cluster

ETCD = {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "spec": {"version": "3.5"}}
IMAGE = ("--image", "registry.test/fleet-operator:1")


class Operator:
    """`fleet operator` typed at a shell outside any repository."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.kubeconfig = cluster.kubeconfig

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = self.type(arguments[0], "--context", self.cluster.context, *arguments[1:])
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done

    def type(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fleet", "operator", *arguments],
            cwd=self.directory,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def get(self, kind: str, name: str = "fleet-operator", namespace: str = "fleet-system") -> dict[str, Any] | None:
        options = ("-n", namespace, "-o", "json", "--ignore-not-found", "--show-managed-fields")
        text = self.cluster.kubectl("get", kind, name, *options)
        found: dict[str, Any] | None = json.loads(text) if text else None
        return found


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path) -> Iterator[Operator]:
    made = Operator(cluster, tmp_path)
    yield made
    made("uninstall", "--yes", "--take-over")


def test_an_installation_is_whole_and_a_second_one_changes_nothing(operator: Operator) -> None:
    first = operator("install")
    assert "1 replica is ready" in first.stdout
    assert "+ Deployment.apps fleet-system/fleet-operator" in first.stdout
    found = operator.get("deployment")
    assert found and found["spec"]["template"]["spec"]["containers"][0]["image"].startswith("localhost/fleet-lab/")
    assert {entry["manager"] for entry in found["metadata"]["managedFields"] if not entry.get("subresource")} == {
        "fleet-install"
    }
    again = operator("install")
    assert "the operator is installed: no changes" in again.stdout
    after = operator.get("deployment")
    assert after and after["metadata"]["generation"] == found["metadata"]["generation"]
    state = json.loads(operator("status", "-o", "json").stdout)[operator.cluster.context]
    assert (state["installed"], state["ready"], state["replicas"]) == (True, 1, 1)
    assert state["definitions"][0]["current"] is True


def test_what_was_said_once_stays_until_something_else_is_said(operator: Operator) -> None:
    operator("install", *IMAGE, "--replicas", "2", "--engine-image", "etcd=registry.test/etcd:{version}")
    assert operator.get("poddisruptionbudget")
    upgraded = json.loads(operator("install", "--image", "registry.test/fleet-operator:2", "-o", "json").stdout)
    (one,) = upgraded.values()
    assert (one["replicas"], one["engineImages"]) == (2, {"etcd": "registry.test/etcd:{version}"})
    found = operator.get("deployment")
    assert found and found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.test/fleet-operator:2"
    done = operator("install", *IMAGE, "--replicas", "1", "--engine-image", "etcd=")
    assert "- PodDisruptionBudget.policy fleet-system/fleet-operator" in done.stdout
    assert operator.get("poddisruptionbudget") is None
    found = operator.get("deployment")
    assert found and found["spec"]["template"]["spec"]["containers"][0]["args"] == ["--metrics=:8080"]


def test_what_belongs_to_somebody_else_is_left_and_its_owner_named(operator: Operator) -> None:
    printed = operator.type("install", *IMAGE, "--dry-run", "-o", "yaml").stdout
    role = next(one for one in yaml.safe_load_all(printed) if one["kind"] == "ClusterRole")
    operator.cluster.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump(role))
    done = operator("install", *IMAGE, code=4)
    assert "ClusterRole.rbac.authorization.k8s.io fleet-operator exists and belongs to kubectl" in done.stderr
    assert "--take-over" in done.stderr
    assert operator.get("deployment") is None, "nothing was done before that was found"
    operator("install", *IMAGE, "--take-over", "--no-wait")
    assert operator.get("deployment")


def test_a_missing_context_does_not_keep_it_from_other_clusters(operator: Operator) -> None:
    clusters = operator.directory / "clusters"
    clusters.mkdir()
    (operator.directory / "fleet.toml").write_text("")
    (clusters / "all.py").write_text(
        "import fleet\n\n"
        "fleet.Cluster('a-gone', context='no-such-context')\n"
        f"fleet.Cluster('there', context={operator.cluster.context!r})\n"
    )
    done = operator.type("install", *IMAGE, "--no-wait")
    assert done.returncode == 3, done.stderr
    assert "✓ there: the operator is installed: " in done.stdout
    assert "error: " in done.stderr
    assert "no-such-context" in done.stderr
    assert done.stderr.index("operator on there: applying") < done.stderr.index("error: ")
    assert operator.get("deployment")


def test_definitions_of_a_newer_release_are_not_taken_back(operator: Operator) -> None:
    operator("install", *IMAGE, "--no-wait")
    operator.cluster.kubectl("annotate", "crd", "etcds.fleet.dev", "fleet.dev/version=99.1", "--overwrite")
    done = operator("install", *IMAGE, "--no-wait", code=4)
    assert "is of fleet 99.1, and this is the older" in done.stderr
    operator("install", *IMAGE, "--no-wait", "--take-over")


def test_what_a_dry_run_prints_is_what_a_server_takes(operator: Operator) -> None:
    mark = operator.cluster.audit.mark()
    printed = operator.type("install", *IMAGE, "--replicas", "2", "--dry-run", "-o", "yaml")
    assert printed.returncode == 0, printed.stderr
    assert operator.cluster.audit.requests(mark, agent="fleet/") == [], "no cluster is asked"
    cluster = operator.cluster
    space = next(one for one in yaml.safe_load_all(printed.stdout) if one["kind"] == "Namespace")
    forced = ("--server-side", "--force-conflicts")  # another test may have installed here
    cluster.kubectl("apply", *forced, "-f", "-", input=yaml.safe_dump(space))  # a dry run makes none
    options = ("--server-side", "--dry-run=server", "-f", "-")
    said = cluster.lab.kubectl(cluster.name, "apply", *options, input=printed.stdout)
    assert "deployment.apps/fleet-operator serverside-applied (server dry run)" in said


def test_apps_are_let_go_of_and_nothing_of_them_is_touched(operator: Operator) -> None:
    operator("install", *IMAGE, "--no-wait")
    namespace = operator.cluster.namespace
    operator("allow", namespace)
    held = {"finalizers": ["example.com/other", "fleet.dev/operator"]}
    for name in ("stays", "goes"):
        operator.cluster.apply({**ETCD, "metadata": {"name": name, **held}})
    operator.cluster.kubectl("delete", "etcd", "goes", "--wait=false")
    done = operator("uninstall", "--yes")
    assert "1 app runs on" in done.stdout
    assert f"Etcd.fleet.dev {namespace}/goes was being deleted" in done.stdout
    for name in ("stays", "goes"):
        found = operator.cluster.get("etcd", name)
        assert found["metadata"]["finalizers"] == ["example.com/other"]
        operator.cluster.kubectl("patch", "etcd", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    for kind in ("deployment", "clusterrole", "clusterrolebinding", "role", "rolebinding", "serviceaccount", "lease"):
        assert operator.get(kind) is None, kind
    assert operator.get("clusterrole", "fleet-operator-apps") is None
    assert operator.get("rolebinding", namespace=namespace) is None
    assert operator.get("crd", "etcds.fleet.dev")
    assert "there is no operator" in operator("uninstall", "--yes").stdout


def test_nothing_is_removed_without_being_asked(operator: Operator) -> None:
    operator("install", *IMAGE, "--no-wait")
    done = operator("uninstall", code=2)
    assert "this would remove the operator from" in done.stderr
    assert operator.get("deployment")


def test_an_operator_that_does_not_start_is_told_with_the_reason(operator: Operator) -> None:
    patch = {"spec": {"unschedulable": True}}
    nodes = operator.cluster.node_names
    for node in nodes:
        operator.cluster.kubectl("patch", "node", node, "-p", json.dumps(patch))
    try:
        done = operator("install", "--timeout", "10s", code=9)
    finally:
        for node in nodes:
            operator.cluster.kubectl("uncordon", node)
    assert "the operator does not run after 10 s: fleet-operator-" in done.stderr
    assert "not scheduled" in done.stderr


def test_the_right_to_let_the_operator_in_is_a_right_of_its_own(operator: Operator) -> None:
    cluster, namespace = operator.cluster, operator.cluster.namespace
    operator("install", *IMAGE, "--no-wait")
    assert "there is no namespace 'nowhere'" in operator("allow", "nowhere", code=6).stderr
    cluster.kubectl("create", "serviceaccount", "ci")
    rules = ["--verb=get,list,create,patch", "--resource=rolebindings.rbac.authorization.k8s.io"]
    cluster.kubectl("create", "role", "ci", *rules)
    cluster.kubectl("create", "rolebinding", "ci", "--role=ci", f"--serviceaccount={namespace}:ci")
    user = f"{namespace}-ci"
    cluster.kubectl("create", "clusterrole", user, "--verb=get", "--resource=namespaces")
    cluster.kubectl("create", "clusterrolebinding", user, f"--clusterrole={user}", f"--serviceaccount={namespace}:ci")
    operator.kubeconfig = _kubeconfig_of(cluster, operator.directory, cluster.kubectl("create", "token", "ci").strip())
    try:
        done = operator("allow", namespace, code=3)
        assert f"rolebindings.rbac.authorization.k8s.io {namespace}/fleet-operator" in done.stderr
        assert "it gives rights that you do not have yourself" in done.stderr
        assert "--verb=bind" in done.stderr
        verb = ["--verb=bind", "--resource=clusterroles", "--resource-name=fleet-operator-apps"]
        cluster.kubectl("create", "clusterrole", f"{user}-bind", *verb)
        account = f"--serviceaccount={namespace}:ci"
        cluster.kubectl("create", "clusterrolebinding", f"{user}-bind", f"--clusterrole={user}-bind", account)
        assert (
            f"RoleBinding.rbac.authorization.k8s.io {namespace}/fleet-operator created"
            in operator("allow", namespace).stdout
        )
    finally:
        operator.kubeconfig = cluster.kubeconfig
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", user, f"{user}-bind", "--ignore-not-found")


def _kubeconfig_of(cluster: Cluster, directory: Path, token: str) -> Path:
    found = yaml.safe_load(cluster.kubeconfig.read_text())
    for one in found["users"]:
        one["user"] = {"token": token}
    path = directory / "ci-kubeconfig"
    path.write_text(yaml.safe_dump(found))
    return path


def test_in_a_repository_it_is_about_its_clusters(operator: Operator) -> None:
    root = operator.directory
    (root / "fleet.toml").write_text("")
    (root / "clusters").mkdir()
    (root / "stacks").mkdir()
    near = f'fleet.Cluster("near", context="{operator.cluster.context}")'
    (root / "clusters" / "all.py").write_text(f'import fleet\n\n{near}\nfleet.Cluster("far", pull=True)\n')
    done = operator.type("status")
    assert done.returncode == 0, done.stderr
    assert "near      not installed" in done.stdout
    assert "far: left out, it is not reached from here" in done.stderr
    wrong = operator.type("status", "--cluster", "naer")
    assert (wrong.returncode, "did you mean near?" in wrong.stderr) == (6, True)
    both = operator.type("status", "--cluster", "near", "--context", "x")
    assert both.returncode == 2


NOWHERE = {
    "current-context": "nowhere",
    "contexts": [{"name": "nowhere", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "x"}}],
}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["install"], 2, "which image shall run?"),
        (["install", "--image", "x", "--engine-image", "etdc=x"], 2, "did you mean 'etcd'?"),
        (["install", "--image", "x", "--engine-image", "etcd"], 2, "is not ENGINE=IMAGE"),
        (["install", "--image", "x"], 4, "cannot reach cluster nowhere"),
        (["status"], 4, "cannot reach cluster nowhere"),
        (["status", "--cluster", "eu-1"], 2, "there is no fleet.toml"),
        (["allow"], 2, "Missing argument 'NAMESPACE...'"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_sent(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(NOWHERE))
    done = subprocess.run(
        [sys.executable, "-m", "fleet", "operator", *arguments],
        cwd=tmp_path,
        env={**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_run_is_the_operators_own_command() -> None:
    command = [sys.executable, "-m", "fleet", "operator", "run", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Look after all apps of the cluster until told to stop" in done.stdout
