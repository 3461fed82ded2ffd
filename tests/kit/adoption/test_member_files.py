"""Files of members in a pod that others described."""

from __future__ import annotations

from typing import Any

from fleet.kit.adoption.member_files import FOLDER, mount_member_files
from tests.kit.nats import app


def test_files_and_the_pods_name_are_there_once_beside_what_others_gave() -> None:
    pod: dict[str, Any] = {"volumes": [{"name": "own"}]}
    container: dict[str, Any] = {
        "env": [{"name": "FLEET_POD", "value": "what was given back"}, {"name": "TZ", "value": "UTC"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    for _ in range(2):
        mount_member_files(pod, container, app())
    assert [entry["name"] for entry in container["env"]] == ["TZ", "FLEET_POD"]
    assert container["env"][1]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/data", FOLDER]
    assert pod["volumes"][1:] == [{"name": "fleet-members", "configMap": {"name": "bus-members", "defaultMode": 0o644}}]


def test_a_pod_without_any_volumes_gets_its_first() -> None:
    pod: dict[str, Any] = {}
    container: dict[str, Any] = {"volumeMounts": []}
    mount_member_files(pod, container, app())
    assert len(pod["volumes"]) == len(container["volumeMounts"]) == len(container["env"]) == 1
