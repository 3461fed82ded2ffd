"""A manifest that belongs to another object: same name and namespace unless said otherwise, and an owner reference.

Kubernetes deletes it with its owner. What must outlive the owner (volumes, databases) is not made with this, but
found by a label (`mapping.label`).
"""

from __future__ import annotations

from typing import Any


def child_of(
    parent: dict[str, Any], *, name: str = "", labels: dict[str, str] | None = None, **content: Any
) -> dict[str, Any]:
    own = parent["metadata"]
    reference = {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": own["name"],
        "uid": own["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: dict[str, Any] = {"name": name or own["name"], "ownerReferences": [reference]}
    if own.get("namespace"):
        metadata["namespace"] = own["namespace"]
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, **content}
