"""What is installed, and what it may do: as data."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from fleet_operator.core import kinds
from fleet_operator.run import NAME, SYSTEM, engines

from fleet.install import rights
from fleet.install.manifests import InstallOptions, deployment, manifests, settings_of
from fleet.install.status import is_current, leader_of
from fleet.objects.desired import Key
from fleet.objects.resource import Resource
from fleet.render import operator_rights as names
from fleet.render.crd import definitions

TWO = InstallOptions("registry.test/fleet-operator:1", {"etcd": "registry.test/etcd:{version}"}, replicas=2)
ROLES = [rights.cluster_role(), rights.apps_role(), rights.lease_role()]


def allowed(role: dict[str, Any], resource: Resource, subresource: str = "") -> set[str]:
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return {
        verb
        for rule in role["rules"]
        if resource.group in rule["apiGroups"] and plural in rule["resources"] and "resourceNames" not in rule
        for verb in rule["verbs"]
    }


def test_no_rule_has_a_wildcard_or_a_way_to_more_rights() -> None:
    for role in ROLES:
        for rule in role["rules"]:
            assert rule.keys() <= {"apiGroups", "resources", "verbs", "resourceNames"}
            words = [word for values in rule.values() for word in values]
            assert "*" not in "".join(words)
            assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])
            for forbidden in ("exec", "attach", "portforward", "proxy", "token", "roles", "rolebindings", "ephemeral"):
                assert not any(forbidden in resource for resource in rule["resources"]), rule


def test_secrets_and_pods_are_nowhere_but_where_a_binding_says_so() -> None:
    everywhere = rights.cluster_role()
    plurals = {kind["spec"]["names"]["plural"] for kind in definitions().values()}
    assert "etcds" in plurals
    assert {resource for rule in everywhere["rules"] for resource in rule["resources"]} == {
        *plurals,
        *(f"{plural}/status" for plural in plurals),
        "nodes",
        "persistentvolumes",
        "customresourcedefinitions",
    }
    wide = [one for one in manifests(TWO) if one["kind"] == "ClusterRoleBinding"]
    assert [one["roleRef"]["name"] for one in wide] == ["fleet-operator"]
    bound = [one["roleRef"]["name"] for one in manifests(TWO) if one["kind"] == "RoleBinding"]
    assert bound == ["fleet-operator"], "the apps' role is bound by nobody yet"


@pytest.mark.parametrize("resource", [*kinds.CHILDREN, *kinds.SPARED], ids=lambda one: one.plural)
def test_the_operator_may_see_and_change_all_that_apps_are_made_of(resource: Resource) -> None:
    verbs = allowed(rights.apps_role(), resource)
    assert {"list", "watch", "delete"} <= verbs
    if resource is not kinds.PODS:  # made by StatefulSets and Jobs
        assert {"create", "patch", "get"} <= verbs


def test_the_operator_may_see_and_report_on_apps_everywhere() -> None:
    everywhere = rights.cluster_role()
    for engine in engines({}):
        assert {"list", "watch", "patch"} <= allowed(everywhere, engine.resource)
        assert "create" not in allowed(everywhere, engine.resource)
        assert allowed(everywhere, engine.resource, "status") == {"patch"}
    assert {"list", "watch"} <= allowed(everywhere, kinds.NODES)
    assert {"get"} == allowed(rights.apps_role(), kinds.REVISIONS)


def test_the_operator_reads_what_people_ask_answers_it_and_forgets_it() -> None:
    everywhere = rights.cluster_role()
    assert allowed(everywhere, kinds.OPERATIONS) == {"get", "list", "watch", "delete"}
    assert allowed(everywhere, kinds.OPERATIONS, "status") == {"patch"}


def test_people_may_ask_and_look_and_nothing_else() -> None:
    role = rights.people_role()
    assert allowed(role, kinds.OPERATIONS) == {"create", "get", "list", "watch"}
    asked_about = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert asked_about == {"operations", *(engine.resource.plural for engine in engines({}))}
    for engine in engines({}):
        assert allowed(role, engine.resource) == {"get", "list", "watch"}


def test_names_are_those_that_the_operator_itself_uses() -> None:
    assert (names.OPERATOR, names.SYSTEM) == (NAME, SYSTEM)
    lease = next(rule for rule in rights.lease_role()["rules"] if "update" in rule["verbs"])
    assert lease["resourceNames"] == [NAME]


def test_the_pod_is_nobody_with_a_root_that_cannot_be_written_to() -> None:
    pod = deployment(TWO)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert "volumes" not in pod


def test_a_budget_is_there_only_if_there_is_more_than_one() -> None:
    assert "PodDisruptionBudget" in {one["kind"] for one in manifests(TWO)}
    assert "PodDisruptionBudget" not in {one["kind"] for one in manifests(InstallOptions("image"))}


def test_what_an_operator_was_told_can_be_read_back() -> None:
    assert settings_of(deployment(TWO)) == TWO
    assert settings_of(deployment(InstallOptions("image"))) == InstallOptions("image")


def test_the_manifests_are_plain_yaml_with_one_object_each() -> None:
    found = list(yaml.safe_load_all(yaml.safe_dump_all(manifests(TWO))))
    assert found == manifests(TWO)
    assert len({Key.of(one) for one in found}) == len(found)


def test_a_definition_fits_only_if_neither_has_a_field_that_the_other_has_not() -> None:
    wanted = definitions()["fleet.dev_etcds.yaml"]
    assert is_current(wanted, yaml.safe_load(yaml.safe_dump({**wanted, "status": {"conditions": []}})))
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda fields: fields.pop("members"),
        lambda fields: fields.update(future={"type": "string"}),
        lambda fields: fields["members"].update(maximum=99),
    ]
    for change in changes:
        other = yaml.safe_load(yaml.safe_dump(wanted))
        schema = other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        change(schema["properties"]["spec"]["properties"])
        assert not is_current(wanted, other)


def test_a_leader_that_has_been_silent_for_long_leads_no_more() -> None:
    now = datetime.datetime(2031, 5, 1, 12, 0, 40, tzinfo=datetime.UTC)
    spec = {"holderIdentity": "fleet-operator-abc-xyz_1_0a1b", "leaseDurationSeconds": 15}
    assert leader_of({"spec": {**spec, "renewTime": "2031-05-01T12:00:38.000000Z"}}, now)[0] == "fleet-operator-abc-xyz"
    assert leader_of({"spec": {**spec, "renewTime": "2031-05-01T12:00:05.000000Z"}}, now)[0] == ""
    assert leader_of({"spec": {"holderIdentity": "", "renewTime": "2031-05-01T12:00:38Z"}}, now)[0] == ""
    assert leader_of(None, now) == ("", "")
