"""Rights that follow from app types, tried against a real API server: what the operator can give to members, what it
can do itself, and what a member can. No pod runs: each is tried with a token of its account.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet_operator.core import kinds

from fleet.errors import FleetError
from fleet.install import rights
from fleet.kit.rights import RBAC
from fleet.kit.workload.endpoints import make_endpoint_slices
from fleet.kit.workload.pods import surroundings
from fleet.names import OPERATOR
from fleet.objects.compare import compare
from fleet.objects.desired import Key
from fleet.objects.fields import owned_fields
from fleet.objects.normalise import normalise
from fleet.testing import Cluster
from tests.app_types import installed, write_package
from tests.kit import pair, talker
from tests.kit.pair import PAIR
from tests.kit.talker import TYPE, Talker
from tests.kit.test_pair_conforms import SUBJECT
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
        text = inspect.getsource(pair).replace("    app = Pair\n", "    app = Pair\n    contract = 1\n")
        write_package(tmp_path, "fleet-pair", text=text, entry="pair", attribute="PAIR")
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


@pytest.fixture
def slices(cluster: Cluster) -> list[Object]:
    """The slices of a simulated app, with addresses that pods can have, in the test's namespace."""
    trial = SUBJECT.make_trial()
    trial.settle()
    for found in trial.cluster.list_objects("Pod"):
        address = f"10.9.9.{found['metadata']['name'].rpartition('-')[2]}"
        trial.cluster.edit("Pod", found["metadata"]["name"])["status"]["podIP"] = address
    made = make_endpoint_slices(PAIR, trial.observe())
    return [{**found, "metadata": {**found["metadata"], "namespace": cluster.namespace}} for found in made]


@pytest.fixture
def pod(cluster: Cluster) -> str:
    """A pod that no node takes, as a member's."""
    container = {"name": "talker", "image": "registry.test/talker:1"}
    spec = {"nodeSelector": {"no-such-node": "none"}, "containers": [container]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "radio-0"}, "spec": spec})
    return "radio-0"


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


LABEL = ("--type=merge", "-p", '{"metadata": {"labels": {"role": "primary"}}}')


def test_the_operator_has_none_of_the_rights_that_it_gives(operator: Person, pod: str) -> None:
    operator.kubectl("get", "pod", pod)
    for arguments in (
        ("patch", "pod", pod, *LABEL),
        ("create", "token", "radio-member"),
        ("get", "clusterrole", "fleet-member-talker"),
    ):
        with pytest.raises(FleetError, match=FORBIDDEN):
            operator.kubectl(*arguments)


def test_a_member_can_do_what_is_declared_in_its_namespace_and_nothing_else(
    cluster: Cluster, operator: Person, pod: str, tmp_path: Path, victim: str
) -> None:
    for manifest in rendered(cluster.namespace):
        operator.kubectl("apply", "--server-side", "-f", "-", manifest=manifest)
    member = account(cluster, "radio-member", tmp_path)
    member.kubectl("get", "pods")
    for name in ("leader", "other"):
        member.kubectl("create", "configmap", name)
    member.kubectl("patch", "configmap", "leader", "--type=merge", "-p", '{"data": {"leader": "radio-0"}}')
    member.kubectl("patch", "pod", pod, *LABEL)
    for arguments in (
        ("get", "configmap", "other"),
        ("delete", "pod", pod),
        ("get", "secrets"),
        ("get", "rolebindings"),
        ("get", "pods", f"--namespace={victim}"),
        ("create", "token", "radio-member"),
        ("create", "rolebinding", "more", "--clusterrole=fleet-member-talker", "--serviceaccount=x:y"),
    ):
        with pytest.raises(FleetError, match=FORBIDDEN):
            member.kubectl(*arguments)


def unchanged(cluster: Cluster, manifest: Object) -> bool:
    """Whether the operator's writer finds nothing to change in what the server has of a manifest."""
    own = manifest["metadata"]
    live = cluster.get(kinds.of(manifest).plural, own["name"], "--show-managed-fields")
    owned = owned_fields(live, OPERATOR)
    assert owned is not None
    return not compare(normalise(manifest), live, owned, key=Key.of(manifest), strict=True)


def test_the_operator_keeps_slices_and_writes_nothing_that_is_there_already(
    cluster: Cluster, operator: Person, slices: list[Object]
) -> None:
    manifests = [*rendered(cluster.namespace), *slices]
    for _ in range(2):
        for manifest in manifests:
            command = ("apply", "--server-side", f"--field-manager={OPERATOR}", "-f", "-")
            operator.kubectl(*command, manifest=manifest)
    assert {manifest["kind"] for manifest in manifests} == {"ServiceAccount", "RoleBinding", "EndpointSlice"}
    assert [manifest["metadata"]["name"] for manifest in manifests if not unchanged(cluster, manifest)] == []
    (found,) = cluster.get("endpointslices", "--selector=kubernetes.io/service-name=db")["items"]
    assert [endpoint["targetRef"]["name"] for endpoint in found["endpoints"]] == ["db-0"]
    for manifest in slices:
        operator.kubectl("delete", "endpointslice", manifest["metadata"]["name"])
