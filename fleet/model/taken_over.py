"""Which StatefulSet becomes an app, by the app's custom resource."""

from __future__ import annotations

from typing import Any

from fleet.model.desired import Key


def taken_over(manifest: dict[str, Any]) -> Key | None:
    """None for an app that is made anew."""
    adopt = (manifest.get("spec") or {}).get("adopt")
    if not isinstance(adopt, dict):
        return None
    own = manifest["metadata"]
    return Key("apps", "StatefulSet", own.get("namespace", ""), adopt.get("statefulSet") or own["name"])
