"""Manifests of what an app was made of: what is in them is what the cluster has once the app is given back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.adopt.export import export_manifest
from fleet.kit.adoption.workload import references
from tests.operator.existing_setups import SET_UPS

HELD = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
KEEPS = {"whenDeleted": "Retain", "whenScaled": "Retain"}


def managed(**annotations: Any) -> dict[str, Any]:
    """As it is while the operator has it."""
    found = SET_UPS["plain"].stateful()
    own = found["metadata"]
    own["labels"] = {"app": "etcd", "fleet.dev/app": "kv", "fleet.dev/kind": "Etcd"}
    own["annotations"] = {f"fleet.dev/{name}": json.dumps(value) for name, value in annotations.items()}
    found["spec"] |= {"updateStrategy": HELD, "persistentVolumeClaimRetentionPolicy": KEEPS}
    found["status"] = {"currentRevision": "a", "updateRevision": "a"}
    return found


def test_a_set_is_written_as_it_was_found_also_while_it_is_held() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    made = export_manifest(managed(**{"found-strategy": {"type": "OnDelete"}, "found-retention": policy}))
    assert made["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert made["spec"]["persistentVolumeClaimRetentionPolicy"] == policy
    assert made["metadata"]["labels"] == {"app": "etcd"}
    assert "annotations" not in made["metadata"]
    ours = export_manifest(managed())
    assert ours["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}


def test_a_set_whose_pods_have_two_revisions_is_written_with_what_holds_them() -> None:
    found = managed(**{"found-strategy": {"type": "OnDelete"}})
    found["status"]["updateRevision"] = "b"
    assert export_manifest(found)["spec"]["updateStrategy"] == HELD


def test_a_set_that_nobody_holds_is_written_as_it_is() -> None:
    found = managed()
    del found["metadata"]["labels"]
    assert export_manifest(found)["spec"]["updateStrategy"] == HELD


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_whatever_pods_read_is_known(kind: str) -> None:
    field, name = ("configMap", "name") if kind == "ConfigMap" else ("secret", "secretName")
    key = {"name": "A", "valueFrom": {f"{field}KeyRef": {"name": "by-key", "key": "a"}}}
    spec = {
        "containers": [{"env": [key, {"name": "B", "value": "1"}], "envFrom": [{f"{field}Ref": {"name": "all"}}]}],
        "initContainers": [{"envFrom": [{f"{field}Ref": {"name": "of-init"}}]}],
        "volumes": [
            {"name": "a", field: {name: "mounted"}},
            {"name": "b", "projected": {"sources": [{field: {"name": "projected"}}, {"serviceAccountToken": {}}]}},
            {"name": "c", "emptyDir": {}},
        ],
    }
    assert references({"spec": spec}, kind) == {"by-key", "all", "of-init", "mounted", "projected"}
