"""Volumes and claims on them."""

from __future__ import annotations

from typing import Any

from fleet.kube.health.state import Health, degraded, healthy, progressing, status_of


def claim(found: dict[str, Any]) -> Health:
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Lost":
        return degraded(f"its volume {found['spec'].get('volumeName', '')} is lost")
    if phase != "Bound":
        return progressing("not bound to a volume yet")
    wanted = (found["spec"].get("resources") or {}).get("requests", {}).get("storage")
    size = (status.get("capacity") or {}).get("storage")
    resizing = [one["type"] for one in status.get("conditions") or () if one.get("status") == "True"]
    if "FileSystemResizePending" in resizing or "Resizing" in resizing:
        return progressing(f"growing from {size} to {wanted}")
    return healthy(f"bound, {size}" if size else "bound")


def volume(found: dict[str, Any]) -> Health:
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Failed":
        return degraded(status.get("message") or "it could not be reclaimed")
    if phase in ("Available", "Bound", "Released"):
        return healthy(str(phase).lower())
    return progressing("not available yet")
