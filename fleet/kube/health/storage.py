"""Volumes and claims on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.kube.health.state import Health, degraded, healthy, progressing, status_of
from fleet.model.desired import Key

Around = Mapping[Key, dict[str, Any] | None]  # what else was looked at; what is not in it, nobody looked for
NOTHING: Around = {}
_BEGUN = (  # annotations: a pod uses it, and its volume is being made
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)


def claim(found: dict[str, Any], around: Around = NOTHING) -> Health:
    """Judge a claim, bound or not. `around` has its StorageClass, if that was asked for."""
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Lost":
        return degraded(f"its volume {found['spec'].get('volumeName', '')} is lost")
    if phase != "Bound":
        return _pending(found, around)
    wanted = (found["spec"].get("resources") or {}).get("requests", {}).get("storage")
    size = (status.get("capacity") or {}).get("storage")
    resizing = [one["type"] for one in status.get("conditions") or () if one.get("status") == "True"]
    if "FileSystemResizePending" in resizing or "Resizing" in resizing:
        return progressing(f"growing from {size} to {wanted}")
    return healthy(f"bound, {size}" if size else "bound")


def class_of(found: dict[str, Any]) -> Key | None:
    """Return the StorageClass that says whether a pending claim is at rest; None where no class decides that."""
    spec = found["spec"]
    begun = any(name in (found["metadata"].get("annotations") or {}) for name in _BEGUN)
    if status_of(found).get("phase") != "Pending" or spec.get("volumeName") or begun:
        return None
    name = spec.get("storageClassName")
    return Key("storage.k8s.io", "StorageClass", "", name) if name else None


def _pending(found: dict[str, Any], around: Around) -> Health:
    """A claim whose class binds when a pod first uses it is at rest until then: nothing else happens to it."""
    key = class_of(found)
    if key is None:
        has_class = found["spec"].get("storageClassName") is not None
        return progressing("not bound to a volume yet" + ("" if has_class else ", and it has no StorageClass"))
    if key not in around:
        return progressing(f"not bound to a volume yet; StorageClass {key.name} was not seen")
    storage_class = around[key]
    if storage_class is None:
        return degraded(f"StorageClass {key.name} does not exist")
    if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
        return healthy("waits for its first consumer")
    return progressing("not bound to a volume yet")


def volume(found: dict[str, Any]) -> Health:
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Failed":
        return degraded(status.get("message") or "it could not be reclaimed")
    if phase in ("Available", "Bound", "Released"):
        return healthy(str(phase).lower())
    return progressing("not available yet")
