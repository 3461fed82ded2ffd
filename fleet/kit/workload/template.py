"""A pod template with its own hash on it, so that pods and StatefulSets tell which one they were made with."""

from __future__ import annotations

import hashlib
import json
from typing import Any

TEMPLATE = "fleet.dev/template"  # the annotation


def hashed(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template as rendered, marked. The hash is of what was rendered, not of what a server made of it."""
    mark = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
    metadata = template.get("metadata", {})
    annotations = {**metadata.get("annotations", {}), TEMPLATE: mark}
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def mark_of(template: dict[str, Any]) -> str:
    return str((template.get("metadata", {}).get("annotations") or {}).get(TEMPLATE, ""))
