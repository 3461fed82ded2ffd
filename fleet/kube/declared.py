"""Fields that a kind does not declare: a typing error in a manifest, or a definition that is older than the manifest.

Pure. Server-side apply refuses most of them, but with a 500, as if the server had failed; it must not be tried again
nor read as "may have happened". Inside an object that a definition leaves open without saying so, the server takes
them and silently drops them (`fieldValidation=Strict` changes neither): every later sync would send them again.
"""

from __future__ import annotations

from typing import Any

from fleet.plan import paths

_REFUSED = "failed to create typed patch object ("
_BUILT_IN = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})


def refused(status: int, message: str) -> list[str]:
    """What is wrong with each field, as `spec.replica: field not declared in schema`; nothing for another failure."""
    if status != 500 or not message.startswith(_REFUSED):
        return []
    text = message.partition("): ")[2].removeprefix("errors:")
    return [line.strip().removeprefix(".") for line in text.splitlines() if line.strip()]


def path_of(complaint: str) -> str:
    """The field of one of those lines."""
    return complaint.partition(": ")[0]


def dropped(group: str, manifest: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """The fields of a custom resource that were sent and are not in the answer. Built-in kinds drop nothing so."""
    if group in _BUILT_IN or group.endswith(".k8s.io"):
        return []
    missing: list[str] = []
    for name, value in manifest.items():
        if name not in ("apiVersion", "kind", "metadata", "status"):
            _compare(value, found.get(name), name, missing)
    return missing


def _compare(sent: Any, kept: Any, path: str, missing: list[str]) -> None:
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name, value in sent.items():
            if name in kept:
                _compare(value, kept[name], paths.child(path, name), missing)
            else:
                missing.append(paths.child(path, name))
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for position, (one, other) in enumerate(zip(sent, kept, strict=True)):
            _compare(one, other, f"{path}[{position}]", missing)
    elif kept is None:
        missing.append(path)
