"""Whose a StatefulSet is: by its labels, by its owner, and by the managers of its fields. Pure."""

from __future__ import annotations

from typing import Any

from fleet.names import MANAGER, OPERATOR

Object = dict[str, Any]


def claimed_by(found: Object, own: tuple[str, str] | None = None) -> str:
    """Say who has it already by its labels, an app or a stack that applies it as a manifest; "" if nobody but the app
    `own` (name and kind). What a stack let go of still says whose it was: its label has to go first."""
    labels = found["metadata"].get("labels") or {}
    app, stack = labels.get("fleet.dev/app"), labels.get("fleet.dev/stack")
    if app is not None and (app, labels.get("fleet.dev/kind")) != own:
        return f"the app {app}"
    return f"the stack {stack}, as one of its manifests (label fleet.dev/stack)" if stack else ""


def template_managers(found: Object) -> tuple[str, ...]:
    """Return the field managers that own fields of the pod template, which the first roll changes."""
    entries = found["metadata"].get("managedFields") or ()
    return tuple(
        sorted(
            {
                str(entry["manager"])
                for entry in entries
                if "f:template" in ((entry.get("fieldsV1") or {}).get("f:spec") or {}) and entry["manager"] != OPERATOR
            }
        )
    )


def managers_in_the_way(found: Object) -> tuple[str, ...]:
    """Return the field managers that own what taking over must change: how a StatefulSet updates its pods, and whether
    its claims go with it."""
    strategy = found["spec"].get("updateStrategy") or {}
    policy = found["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    named = []
    for entry in found["metadata"].get("managedFields") or ():
        if entry.get("subresource") or entry.get("manager") == OPERATOR:
            continue
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        owned = spec.get("f:updateStrategy") or {}
        keeps = spec.get("f:persistentVolumeClaimRetentionPolicy") or {}
        type_changes = "f:type" in owned and strategy.get("type") != "RollingUpdate"
        loses = [name for name, does in policy.items() if does == "Delete" and f"f:{name}" in keeps]
        if type_changes or loses or "f:partition" in (owned.get("f:rollingUpdate") or {}):
            named.append(str(entry["manager"]))
    return tuple(sorted(set(named)))


def spec_managers(found: Object) -> list[str]:
    """Return the names of those that manage more of an object than its status, fleet and its operator left out."""
    entries = found["metadata"].get("managedFields") or ()
    named = {str(entry.get("manager", "")) for entry in entries if not entry.get("subresource")}
    return sorted(named - {"", MANAGER, OPERATOR})


def list_managers(found: Object) -> tuple[str, ...]:
    """Return the names of those that manage more of an object than its status."""
    entries = found["metadata"].get("managedFields") or ()
    return tuple(sorted({str(entry["manager"]) for entry in entries if not entry.get("subresource")}))
