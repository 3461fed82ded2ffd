"""Rights of members whose engine talks to the API server: what is rendered, installed, and taken away again."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_operator.core import kinds
from fleet_operator.run import engines

from fleet.install import rights
from fleet.install.manifests import InstallOptions, manifests
from fleet.kit.adoption.giveback import ORDER
from fleet.kit.rights import RBAC, ApiRule
from fleet.kit.workload.accounts import cluster_role_name, make_cluster_role
from fleet.kit.workload.pods import pod_template, surroundings
from fleet.testing.conformance.subject import declared_subject
from fleet.testing.conformance.trial import Trial
from tests.app_types import installed, write_package
from tests.kit import nats, talker
from tests.kit.app_trial import AppTrial
from tests.kit.nats import NATS
from tests.kit.talker import TYPE as TALKER
from tests.kit.talker import Talker

APP = Talker("radio", namespace="shop", version="1")
ROLE = "fleet-member-talker"
KINDS = ("RoleBinding", "ServiceAccount")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The type, installed as a package."""
    with installed(monkeypatch, tmp_path):
        write_package(tmp_path, "fleet-talker", text=inspect.getsource(talker), entry="talker")
        yield tmp_path


def test_members_with_rights_have_an_account_a_binding_and_a_token() -> None:
    found = {(one["kind"], one["metadata"]["name"]): one for one in surroundings(TALKER, APP)}
    account, binding = found["ServiceAccount", "radio-member"], found["RoleBinding", "radio-member"]
    assert account["metadata"]["labels"]["fleet.dev/app"] == "radio"
    assert account["automountServiceAccountToken"] is False
    assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "radio-member", "namespace": "shop"}]
    pod = pod_template(TALKER, APP, "talker:1")["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("radio-member", False)
    assert [next(iter(source)) for source in pod["volumes"][-1]["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert pod["containers"][0]["volumeMounts"] == [{"name": "account", "mountPath": path, "readOnly": True}]


def test_members_without_rights_have_none_of_it() -> None:
    assert not {kind for kind, _ in _names(surroundings(NATS, nats.app()))} & {"ServiceAccount", "RoleBinding"}
    assert ("ServiceAccount", "radio-watcher-member") not in _names(surroundings(TALKER, APP))
    watcher = pod_template(TALKER, APP, "talker:1", role="watcher")["spec"]
    assert "serviceAccountName" not in watcher and watcher["automountServiceAccountToken"] is False
    assert not watcher["volumes"] and not watcher["containers"][0]["volumeMounts"]
    assert make_cluster_role(NATS) is None and NATS.further_kinds == ()


def test_the_role_of_a_type_has_what_its_roles_declare_once() -> None:
    role = make_cluster_role(TALKER)
    assert role is not None and role["metadata"]["name"] == ROLE
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"], "resourceNames": ["leader"]},
    ]


def test_types_of_one_name_in_two_groups_have_a_role_each() -> None:
    class Foreign(Talker, frozen=True):
        """Of another group."""

        api_group = "example.org"

    assert cluster_role_name(Foreign) == "fleet-member-foreign.example.org"


WIDE: list[dict[str, Any]] = [
    {"resources": ("*",)},
    {"verbs": ("*",)},
    {"group": "*"},
    {"names": ("*",)},
    {"group": RBAC, "resources": ("rolebindings",)},
    {"verbs": ("bind",)},
    {"verbs": ("impersonate",)},
    {"resources": ("secrets",)},
    {"resources": ("pods/exec",)},
    {"resources": ("serviceaccounts/token",)},
    {"verbs": ("create",), "names": ("leader",)},
    {"verbs": ()},
]


@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_no_rule_is_wider_than_it_says(wide: dict[str, Any]) -> None:
    rule = {"group": "", "resources": ("pods",), "verbs": ("get",)}
    ApiRule(**rule)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"rule|create"):
        ApiRule(**rule | wide)


def test_the_operator_may_bind_exactly_these_roles_and_has_none_of_their_rights(package: Path) -> None:
    role = rights.apps_role()
    assert {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": [ROLE]} in role[
        "rules"
    ]
    of_roles = [rule for rule in role["rules"] if RBAC in rule["apiGroups"]]
    assert [rule["resources"] for rule in of_roles] == [["rolebindings"], ["clusterroles"]]
    pods = [rule["verbs"] for rule in role["rules"] if "pods" in rule["resources"]]
    assert pods == [["get", "list", "watch", "delete"]], "members may patch pods, the operator may not"
    kinds_installed = [(one["kind"], one["metadata"]["name"]) for one in manifests(InstallOptions("image"))]
    assert ("ClusterRole", ROLE) in kinds_installed
    bound = [one["roleRef"]["name"] for one in manifests(InstallOptions("image")) if one["kind"].endswith("Binding")]
    assert ROLE not in bound


def test_without_such_a_type_the_operator_has_no_rights_to_bindings() -> None:
    assert rights.member_roles() == []
    assert not [rule for rule in rights.apps_role()["rules"] if RBAC in rule["apiGroups"]]


def test_the_operator_sees_and_changes_accounts_where_a_type_asks_for_them(package: Path) -> None:
    made = {engine.app.kind(): kinds.children(engine) for engine in engines({})}
    assert made["Talker"] == (*kinds.CHILDREN, kinds.ACCOUNTS, kinds.BINDINGS)
    assert made["Etcd"] == kinds.CHILDREN
    rules = rights.apps_role()["rules"]
    for resource in made["Talker"][-2:]:
        verbs = next(rule["verbs"] for rule in rules if resource.plural in rule["resources"])
        assert set(verbs) == {"get", "list", "watch", "create", "patch", "delete"}


def test_accounts_are_there_before_members() -> None:
    trial = declared_subject(TALKER, APP).make_trial()
    trial.settle()
    order = [move.split()[1] for move in trial.moves if move.startswith("apply")]
    assert order.index("RoleBinding") < order.index("StatefulSet")


def test_accounts_outlive_the_pods_that_have_them() -> None:
    cluster = AppTrial(TALKER, APP).installed()

    def check(trial: Trial) -> None:
        if trial.cluster.list_objects("Pod"):
            assert set(KINDS) == {kind for kind in KINDS if trial.cluster.list_objects(kind)}

    cluster.trial.checks.append(check)
    cluster.trial.tear_down()
    assert cluster.names("Pod") == cluster.names("RoleBinding") == cluster.names("ServiceAccount") == []


def test_a_role_without_pods_keeps_no_account() -> None:
    class Typed(type(TALKER)):  # type: ignore[misc]
        roles = (
            replace(TALKER.roles[0], rights=()),
            replace(TALKER.roles[0], name="extra", count=lambda app: app.watchers),
        )

    cluster = AppTrial(Typed(), APP).installed()
    assert cluster.names("ServiceAccount") == cluster.names("RoleBinding") == ["radio-extra-member"]
    cluster.wants(watchers=0).until_rest()
    assert cluster.names("ServiceAccount") == cluster.names("RoleBinding") == []


def test_what_is_given_back_has_its_account_given_back_too() -> None:
    assert {"RoleBinding", "ServiceAccount"} <= set(ORDER)
    assert set(ORDER) <= set(kinds.BY_KIND)


def _names(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["kind"], one["metadata"]["name"]) for one in objects}
