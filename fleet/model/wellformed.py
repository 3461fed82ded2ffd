"""What makes a dict a Kubernetes object that can be applied again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.model.form import misshapen
from fleet.model.invalid import wrong
from fleet.model.plain import check_plain, copied

_SERVER_SIDE = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


def check_object(given: Any) -> dict[str, Any]:
    """A copy of the object without what only the server may say, or an error that says what is missing."""
    example = 'such as {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {…}}'
    if not isinstance(given, Mapping):
        raise wrong(f"must be a dict, not {type(given).__name__}", example)
    manifest = dict(given)
    check_plain(manifest)
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            raise wrong(f"has no {field}", example)
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        if isinstance(metadata, dict) and "generateName" in metadata:
            raise wrong("metadata.generateName makes a new object at every sync", "give it a metadata.name")
        raise wrong("has no metadata.name", example)
    if not isinstance(metadata.get("namespace", ""), str):
        raise wrong("metadata.namespace must be a string")
    if manifest["kind"].endswith("List") and isinstance(manifest.get("items"), list):
        raise wrong("is a list of objects", "make a Manifest of each of its items")
    manifest = dict(copied(manifest))
    if found := misshapen(manifest):
        raise wrong(found.message, found.hint, found.field)
    manifest.pop("status", None)  # the server's, as are these: exported YAML has them and may be used as it is
    for field in _SERVER_SIDE:
        manifest["metadata"].pop(field, None)
    return manifest
