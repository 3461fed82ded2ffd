"""What is never deleted without a word in git: objects that take data, or other people's objects, with them."""

from __future__ import annotations

from typing import Any

from fleet.model.desired import Key
from fleet.model.form import mapping
from fleet.model.group import ON_DELETE

HOLDS_DATA = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)


def holds_data(key: Key) -> bool:
    return (key.group, key.kind) in HOLDS_DATA


def is_retained(key: Key, manifest: dict[str, Any]) -> bool:
    """By its kind, unless the manifest says otherwise."""
    return holds_data(key) and mapping(manifest["metadata"].get("annotations")).get(ON_DELETE) != "delete"
