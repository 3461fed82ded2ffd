"""Policies of an app by an operator that may not see them, and then may. On a real API server; no packet is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ResourceError
from fleet.install import rights
from fleet.testing import Cluster
from tests.operator.app_on_nodes import App, unattended_app
from tests.operator.etcd.under_test import ETCD
from tests.operator.installed_rights import NAME, allow, installed

POLICIES = "networkpolicies"


@pytest.fixture
def app(cluster: Cluster, tmp_path: Path) -> Iterator[App]:
    with unattended_app(cluster, tmp_path, ETCD) as made:
        yield made


def roles(app: App) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a release before gave an operator, and what this one gives it, by one name."""
    whole = {**rights.apps_role(), "metadata": {"name": f"{app.namespace}-apps"}}
    return {**whole, "rules": [rule for rule in whole["rules"] if POLICIES not in rule["resources"]]}, whole


def may_see(app: App) -> bool:
    """Whether the API server lets the operator see policies by now."""
    account = f"--as=system:serviceaccount:{app.namespace}:{NAME}"
    try:
        return "yes" in app.cluster.kubectl("auth", "can-i", "list", POLICIES, account)
    except ResourceError:
        return False


def test_policies_come_with_the_right_to_make_them_and_end_with_their_app(app: App, tmp_path: Path) -> None:
    before, whole = roles(app)
    app.operator.kubeconfig = installed(app.cluster, tmp_path)
    allow(app.cluster, before)
    app.operator.start()
    app.want(version="3.5", members=1, network={"access": {}})
    app.wait("it is begun all the same", lambda: bool(app.cluster.get("statefulsets")["items"]), 60)
    app.wait("it says what it lacks", lambda: POLICIES in app.condition("Attached").get("message", ""), 60)

    app.cluster.apply(whole)
    app.wait("it has its policy", lambda: bool(app.cluster.get(POLICIES)["items"]), 60)
    app.wait("and lacks nothing", lambda: app.condition("Attached").get("status") != "False", 60)
    app.change(network=None)
    app.wait("it has none when git asks for none", lambda: not app.cluster.get(POLICIES)["items"], 60)

    app.change(network={"access": {}})
    app.wait("it has one again", lambda: bool(app.cluster.get(POLICIES)["items"]), 60)
    app.cluster.kubectl("delete", "etcd", app.name, "--wait=false")
    app.wait("it goes", lambda: not app.cluster.get("etcds")["items"], 60)
    assert not app.cluster.get(POLICIES)["items"]


def test_no_policy_is_left_behind_because_nobody_could_see_it(app: App, tmp_path: Path) -> None:
    before, whole = roles(app)
    app.operator.kubeconfig = installed(app.cluster, tmp_path)
    allow(app.cluster, whole)
    app.operator.start()
    app.want(version="3.5", members=1, network={"access": {}})
    app.wait("it is begun", lambda: bool(app.cluster.get("statefulsets")["items"]), 60)
    assert app.cluster.get(POLICIES)["items"], "members never begin without it"
    app.operator.stop()
    app.cluster.apply(before)
    app.wait("the right is gone", lambda: not may_see(app))
    app.operator.start()
    app.cluster.kubectl("delete", "etcd", app.name, "--wait=false")
    app.wait("it says why it waits", lambda: POLICIES in app.condition("Blocked").get("message", ""), 60)
    assert app.condition("Blocked")["reason"] == "NoRights"
    assert app.cluster.get(POLICIES)["items"] and app.cluster.get("statefulsets")["items"]
    app.cluster.apply(whole)
    app.wait("it goes", lambda: not app.cluster.get("etcds")["items"], 60)
    assert not app.cluster.get(POLICIES)["items"]
