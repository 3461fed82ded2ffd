"""The operator's rights come and go with a stack's apps, on two real API servers."""

from __future__ import annotations

from tests.sync.fleet_repository import FleetRepository, config_map

ETCD = "from fleet.apps import Etcd"
HELD = '{"metadata":{"finalizers":["fleet.dev/operator"]}}'
LET_GO = '{"metadata":{"finalizers":null}}'


def test_the_operator_has_its_rights_until_its_apps_are_gone(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    name = f"fleet-operator-{repository.stack}"
    repository.wants(ETCD, "Etcd('db', version='3.5')", config_map("settings", {"a": "1"}))
    repository.commit()
    assert repository.sync("--no-wait").code == 0
    found = repository.get(eu, "rolebinding", name)
    assert found and found["roleRef"]["name"] == "fleet-operator-apps"
    assert found["subjects"] == [{"kind": "ServiceAccount", "name": "fleet-operator", "namespace": "fleet-system"}]

    eu.kubectl("-n", repository.namespace, "patch", "etcd", "db", "--type=merge", "-p", HELD)
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    late = repository.fleet("sync", "--timeout", "2s", "--cluster", eu.name)
    assert late.code == 9, late.err
    assert "waiting for fleet.dev/operator" in late.err
    assert repository.get(eu, "rolebinding", name), "the app is not gone yet"

    eu.kubectl("-n", repository.namespace, "patch", "etcd", "db", "--type=merge", "-p", LET_GO)
    done = repository.sync("--cluster", eu.name)
    assert done.code == 0, done.err
    assert repository.get(eu, "rolebinding", name) is None
    assert repository.data(eu, "settings") == {"a": "1"}
