"""No value of a Secret leaves the plan: neither in a view nor in a log nor in git. What counts is the object's kind."""

from __future__ import annotations

from typing import Any

from fleet.model.desired import Key
from fleet.plan.step import Change

REDACTED = "(redacted)"
SECRET_FIELDS = frozenset({"data", "stringData"})
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # holds a copy of the whole object


def is_secret(key: Key) -> bool:
    return key.group == "" and key.kind == "Secret"


def redact_changes(key: Key, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    if not is_secret(key):
        return changes
    return tuple(
        Change(change.path, _hide(change.before), _hide(change.after)) if _is_hidden(change.path) else change
        for change in changes
    )


def redact_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest to be shown."""
    if not is_secret(Key.of(manifest)):
        return manifest
    shown = {name: _hide(value) if name in SECRET_FIELDS else value for name, value in manifest.items()}
    annotations = manifest["metadata"].get("annotations", {})
    if LAST_APPLIED in annotations:
        shown["metadata"] = {**manifest["metadata"], "annotations": {**annotations, LAST_APPLIED: REDACTED}}
    return shown


def _is_hidden(path: str) -> bool:
    top = path.replace("[", ".").split(".")[0]
    return top in SECRET_FIELDS or path.startswith("metadata.annotations")


def _hide(value: Any) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(value, REDACTED)
    return value if value is None else REDACTED
