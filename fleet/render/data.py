"""A stack that says `delete_data=True`: the word for each object that would otherwise stay when it leaves git.

It is in the objects themselves, so it is synced, shown and recorded before anything is taken out, and an app's operator
reads it too. What an object says about itself counts more.
"""

from __future__ import annotations

from typing import Any

from fleet.model.app import ADOPTION, App
from fleet.model.group import ON_DELETE

KINDS = frozenset({("v1", "Namespace"), ("v1", "PersistentVolume"), ("v1", "PersistentVolumeClaim")})


def released(manifest: dict[str, Any], app: type[App] | None = None) -> dict[str, Any]:
    """The manifest with the word; as it is where there is nothing to keep. `app` is its type if it is an app."""
    if (manifest["apiVersion"], manifest["kind"]) in KINDS:
        metadata = manifest["metadata"]
        annotations = {ON_DELETE: "delete", **(metadata.get("annotations") or {})}
        return {**manifest, "metadata": {**metadata, "annotations": annotations}}
    if app is not None and "volume" in app.model_fields and ADOPTION not in manifest["spec"]:
        spec = manifest["spec"]  # volumes of members that were taken over stay, whatever is said
        return {**manifest, "spec": {**spec, "volume": {"onDelete": "delete", **(spec.get("volume") or {})}}}
    return manifest
