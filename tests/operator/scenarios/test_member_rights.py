"""Rights of members whose engine talks to the API server, tried against a real one: what the operator can give, what it
can do itself, and what a member can. No pod runs: each is tried with a token of its account.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import FleetError
from fleet.install import rights
from fleet.kit.rights import RBAC
from fleet.kit.workload.pods import surroundings
from fleet.testing import Cluster
from tests.app_types import installed, write_package
from tests.kit import talker
from tests.kit.talker import TYPE, Talker
from tests.kube.client.test_client import as_user
from tests.operator.scenarios.test_operations import Person
from tests.operator.scenarios.test_tenants import victim

__all__ = ["victim"]
Object = dict[str, Any]
FORBIDDEN = r"(?i)forbidden"


@pytest.fixture
def apps_role(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The roles as an installation makes them where the type is installed; the name of the one for namespaces."""
    with installed(monkeypatch, tmp_path):
        write_package(tmp_path, "fleet-talker", text=inspect.getsource(talker), entry="talker")
        (member,), whole = rights.member_roles(), rights.apps_role()
    name = f"{cluster.namespace}-apps"
    cluster.apply(member, {**whole, "metadata": {"name": name}})
    yield name
    cluster.kubectl("delete", "clusterrole", name)  # members' role is the same for every test


def account(cluster: Cluster, name: str, tmp_path: Path) -> Person:
    token = cluster.kubectl("create", "token", name).strip()
    return Person(cluster, as_user(cluster, tmp_path / f"{name}.kubeconfig", {"token": token}))


def binding(namespace: str, name: str, role: str, subject: str = "operator", kind: str = "RoleBinding") -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace} if kind == "RoleBinding" else {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": subject, "namespace": namespace}],
    }


def make_account(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


@pytest.fixture
def sync(cluster: Cluster, apps_role: str, tmp_path: Path) -> Person:
    """Who brings apps into the namespace: it may bind the role for apps, and has none of its rights."""
    name = f"{cluster.namespace}-sync"
    rules = [
        {"apiGroups": [RBAC], "resources": ["rolebindings"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": [apps_role]},
    ]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    bound = binding(cluster.namespace, "sync", name, "sync")
    cluster.apply(make_account("sync"), role, {**bound, "roleRef": {**bound["roleRef"], "kind": "Role"}})
    return account(cluster, "sync", tmp_path)


@pytest.fixture
def operator(cluster: Cluster, sync: Person, apps_role: str, tmp_path: Path) -> Person:
    """The operator's account, which the sync lets work in this namespace."""
    cluster.apply(make_account("operator"))
    sync.kubectl("create", "-f", "-", manifest=binding(cluster.namespace, "operator", apps_role))
    return account(cluster, "operator", tmp_path)


def rendered(namespace: str) -> list[Object]:
    """What the kit renders of an account, and nothing else."""
    app = Talker("radio", namespace=namespace, version="1")
    return [one for one in surroundings(TYPE, app) if one["kind"] in ("ServiceAccount", "RoleBinding")]


def test_the_operator_can_give_members_their_rights_and_nobody_any_other(
    cluster: Cluster, operator: Person, victim: str
) -> None:
    for _ in range(2):  # as each pass does
        for manifest in rendered(cluster.namespace):
            operator.kubectl("apply", "--server-side", "-f", "-", manifest=manifest)
    refused = {
        "cluster-admin": binding(cluster.namespace, "more", "cluster-admin"),
        "another role": binding(cluster.namespace, "more", "view"),
        "another namespace": binding(victim, "more", "fleet-member-talker"),
        "all namespaces": binding(cluster.namespace, "more", "fleet-member-talker", kind="ClusterRoleBinding"),
        "a role of its own": {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": {"name": "more"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}],
        },
    }
    for what, manifest in refused.items():
        with pytest.raises(FleetError, match=FORBIDDEN):
            where = manifest["metadata"].get("namespace", cluster.namespace)
            print(what, operator.kubectl("create", f"--namespace={where}", "-f", "-", manifest=manifest))
    wider = '[{"op": "add", "path": "/rules/0/verbs/-", "value": "delete"}]'
    with pytest.raises(FleetError, match=FORBIDDEN):
        operator.kubectl("patch", "clusterrole", "fleet-member-talker", "--type=json", "-p", wider)
    theirs = '{"subjects": [{"kind": "ServiceAccount", "name": "operator"}]}'
    with pytest.raises(FleetError, match=FORBIDDEN):
        operator.kubectl("patch", "rolebinding", "sync", "--type=merge", "-p", theirs)


def test_the_operator_has_none_of_the_rights_that_it_gives(cluster: Cluster, operator: Person) -> None:
    for arguments in (
        ("patch", "pod", "radio-0", "--type=merge", "-p", "{}"),
        ("create", "token", "radio-member"),
        ("get", "clusterrole", "fleet-member-talker"),
    ):
        with pytest.raises(FleetError, match=FORBIDDEN):
            operator.kubectl(*arguments)


def test_a_member_can_do_what_is_declared_in_its_namespace_and_nothing_else(
    cluster: Cluster, operator: Person, tmp_path: Path, victim: str
) -> None:
    for manifest in rendered(cluster.namespace):
        operator.kubectl("apply", "--server-side", "-f", "-", manifest=manifest)
    member = account(cluster, "radio-member", tmp_path)
    member.kubectl("get", "pods")
    for name in ("leader", "other"):
        member.kubectl("create", "configmap", name)
    member.kubectl("patch", "configmap", "leader", "--type=merge", "-p", '{"data": {"leader": "radio-0"}}')
    with pytest.raises(FleetError, match="not found"):  # it may, and there is none
        member.kubectl("patch", "pod", "radio-0", "--type=merge", "-p", "{}")
    for arguments in (
        ("get", "configmap", "other"),
        ("delete", "pod", "radio-0"),
        ("get", "secrets"),
        ("get", "rolebindings"),
        ("get", "pods", f"--namespace={victim}"),
        ("create", "token", "radio-member"),
        ("create", "rolebinding", "more", "--clusterrole=fleet-member-talker", "--serviceaccount=x:y"),
    ):
        with pytest.raises(FleetError, match=FORBIDDEN):
            member.kubectl(*arguments)
