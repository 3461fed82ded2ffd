"""The files of an app's members in pods that others described: from the first roll on, each reads its own. Pure."""

from __future__ import annotations

from typing import Any

from fleet.kit import names
from fleet.model.app import App

Object = dict[str, Any]
FOLDER = "/etc/fleet-members"  # nothing of others' is there
POD = "FLEET_POD"  # the variable with the name of a member's pod, by which its file is called: $(FLEET_POD)
VOLUME = "fleet-members"


def mount_member_files(pod: Object, container: Object, app: App) -> None:
    """Give the engine's container the files of all members, and the name of its pod. Each may be there already."""
    own = {"name": POD, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    container["env"] = [*(entry for entry in container.get("env") or () if entry["name"] != POD), own]
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    container["volumeMounts"] = [*(entry for entry in container["volumeMounts"] if entry["name"] != VOLUME), mount]
    volume = {"name": VOLUME, "configMap": {"name": names.members_map(app), "defaultMode": 0o644}}
    pod["volumes"] = [*(entry for entry in pod.get("volumes") or () if entry["name"] != VOLUME), volume]
