"""An app that is deleted while it cannot be seen whether its whole kind is: nothing of it goes. On a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.install import rights
from fleet.testing import Cluster
from tests.operator.app_on_nodes import App, unattended_app
from tests.operator.etcd.under_test import ETCD
from tests.operator.installed_rights import allow, installed

DEFINITIONS = "customresourcedefinitions"


@pytest.fixture
def app(cluster: Cluster, tmp_path: Path) -> Iterator[App]:
    with unattended_app(cluster, tmp_path, ETCD) as made:
        yield made


def test_an_app_is_not_torn_down_while_nobody_can_tell_whether_its_kind_is_deleted(app: App, tmp_path: Path) -> None:
    whole = rights.cluster_role()
    role = {**whole, "metadata": {"name": f"{app.namespace}-blind"}}
    role["rules"] = [rule for rule in whole["rules"] if DEFINITIONS not in rule["resources"]]
    app.operator.kubeconfig = installed(app.cluster, tmp_path, role)
    allow(app.cluster)
    app.operator.start()
    app.want(version="3.5", members=1)
    app.wait("it is begun", lambda: bool(app.cluster.get("statefulsets")["items"]), 60)
    app.cluster.kubectl("delete", "etcd", app.name, "--wait=false")
    app.wait("it says why it waits", lambda: app.condition("Blocked").get("reason") == "NoRights", 60)
    assert DEFINITIONS in app.condition("Blocked")["message"]
    assert app.cluster.get("statefulsets")["items"] and app.cluster.get("secrets")["items"]
    app.cluster.apply({**role, "rules": whole["rules"]})
    app.wait("it goes", lambda: not app.cluster.get("etcds")["items"], 60)
    assert not app.cluster.get("statefulsets")["items"]
