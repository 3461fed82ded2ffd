"""Live objects as an API server gives them after server-side apply, made from manifests without one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fleet.errors import Source
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.normalise import manifest_hash, normalise
from fleet.plan import Entry

LABELS = {"app.kubernetes.io/managed-by": "fleet", "fleet.dev/stack": "orders"}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "orders", "labels": LABELS, **metadata},
        "data": data or {"a": "1"},
    }


def wanted(manifest: dict[str, Any], **options: Any) -> Object:
    return Object(manifest, Source("stacks/orders.py", 7), **options)


def desired(*objects: Object, cluster: str = "eu-1") -> Desired:
    return Desired("orders", cluster, objects)


def live_of(manifest: dict[str, Any], *, uid: str = "u1", manager: str = "fleet", **metadata: Any) -> dict[str, Any]:
    """The object after `manager` applied the manifest."""
    live = deepcopy(normalise(manifest))
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": _fields(live)}
    live["metadata"] |= {"uid": uid, "resourceVersion": "10", "managedFields": [entry], **metadata}
    return live


def entry_of(manifest: dict[str, Any], *, uid: str = "u1", **fields: Any) -> Entry:
    return Entry(Key.of(manifest), "v1", uid, manifest_hash(normalise(manifest)), **fields)


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {
        f"f:{key}": _fields(below)
        for key, below in value.items()
        if key not in ("apiVersion", "kind", "name", "namespace")
    }
