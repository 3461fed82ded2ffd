"""A StatefulSet as it is, with a few fields changed: what is sent is complete, and the rest stays to the byte. Pure."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]
_KEPT = (
    "replicas",
    "serviceName",
    "podManagementPolicy",
    "updateStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "selector",
    "template",
    "volumeClaimTemplates",
    "ordinals",
)


def changed(
    found: Object,
    *,
    replicas: int | None = None,
    partition: int | None = None,
    template: Object | None = None,
    start: int | None = None,
    on_delete: bool = False,
) -> Object:
    """Return the manifest that makes the found one so."""
    spec = copy.deepcopy({name: found["spec"][name] for name in _KEPT if name in found["spec"]})
    if replicas is not None:
        spec["replicas"] = replicas
    if partition is not None:
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    if on_delete:
        spec["updateStrategy"] = {"type": "OnDelete"}
    if template is not None:
        spec["template"] = copy.deepcopy(template)
    if start is not None:
        spec["ordinals"] = {"start": start}
    (spec["template"].get("metadata") or {}).pop("creationTimestamp", None)
    for claim in spec["volumeClaimTemplates"]:
        claim.pop("status", None)
        claim["metadata"].pop("creationTimestamp", None)
    own = found["metadata"]
    metadata = {name: own[name] for name in ("name", "namespace", "labels", "annotations", "uid") if name in own}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def partition_of(found: Object) -> int:
    strategy = found["spec"].get("updateStrategy", {}).get("rollingUpdate") or {}
    return int(strategy.get("partition", 0))


def updates_on_delete(found: Object) -> bool:
    """Tell whether pods get the present template when they are deleted, and only then."""
    return bool(found["spec"].get("updateStrategy", {}).get("type") == "OnDelete")


def last_written(found: Object) -> str:
    """Return when the operator last changed it, as the API server writes times; "" if it never did. Of the entries in
    managedFields a cache keeps only the operator's own."""
    entries = found["metadata"].get("managedFields") or ()
    return max((str(entry.get("time", "")) for entry in entries if not entry.get("subresource")), default="")


def is_observed(found: Object) -> bool:
    """Tell whether its controller knows of its last change."""
    return int(found.get("status", {}).get("observedGeneration", 0)) >= int(found["metadata"].get("generation", 0))
