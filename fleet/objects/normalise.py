"""A manifest in the form in which it is applied and compared: without what the server would not take or keep."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import orjson

from fleet.objects.shape import mapping

SERVER_SET = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def normalise(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest without nulls, status and metadata of the server's; a Secret's stringData as data, which is
    what is stored.
    """
    if _is_normal(manifest):
        return manifest
    normal: dict[str, Any] = _without_nulls({key: value for key, value in manifest.items() if key != "status"})
    normal["metadata"] = {key: value for key, value in normal["metadata"].items() if key not in SERVER_SET}
    if normal["kind"] == "Secret" and normal["apiVersion"] == "v1" and "stringData" in normal:
        text = mapping(normal.pop("stringData"))
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in text.items()}
        normal["data"] = {**mapping(normal.get("data")), **encoded}
    return normal


def manifest_hash(manifest: dict[str, Any]) -> str:
    """Return a short hash of a normalised manifest, stable over runs and key order."""
    return manifest_digest(manifest)[:20]


def applied_hash(manifest: dict[str, Any]) -> str:
    """Return the short hash of a manifest as the user writes it."""
    return manifest_hash(normalise(manifest))


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the whole hash, for what is compared with the word of a party that may be hostile: no two manifests with
    one digest can be found.
    """
    return hashlib.sha256(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _is_normal(manifest: dict[str, Any]) -> bool:
    """Return whether the manifest is normalised already. Most are, and a copy of each in every sync costs more than to
    find out: no null is in its JSON.
    """
    return (
        manifest["kind"] != "Secret"
        and "status" not in manifest
        and SERVER_SET.isdisjoint(manifest["metadata"])
        and b"null" not in orjson.dumps(manifest)
    )


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        return [_without_nulls(below) for below in value]
    return value
