"""Which fields are ours, as the API server recorded it in managedFields.

FieldsV1 is kept as the tree it is: `f:name` a field, `k:{…}` an item of a list with keys, `v:…` a value of a set,
`.` the thing itself; an empty tree is a field owned as a whole. None stands for "we own nothing here".
"""

from __future__ import annotations

from typing import Any

import orjson

MANAGER = "fleet"
Fields = dict[str, Any]


def owned_fields(live: dict[str, Any], manager: str = MANAGER) -> Fields | None:
    """The union of what `manager` applied to the object itself; None if it never did."""
    union: Fields | None = None
    for entry in live.get("metadata", {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            fields = entry.get("fieldsV1") or {}
            union = fields if union is None else _merge(union, fields)
    return union


def other_managers(live: dict[str, Any], manager: str = MANAGER) -> tuple[str, ...]:
    """Who else has fields of the object; writers of the status alone do not make it theirs."""
    entries = live.get("metadata", {}).get("managedFields") or ()
    names = [entry.get("manager", "") for entry in entries if not entry.get("subresource")]
    return tuple(dict.fromkeys(name for name in names if name and name != manager))


def field_of(owned: Fields | None, key: str) -> Fields | None:
    if owned is None:
        return None
    found: Fields | None = owned.get(f"f:{key}")
    return found


def item_keys(token: str) -> dict[str, Any]:
    """`k:{"name":"db"}` → {"name": "db"}."""
    keys: dict[str, Any] = orjson.loads(token[2:])
    return keys


def set_value(token: str) -> Any:
    """`v:"a"` → "a"."""
    return orjson.loads(token[2:])


def _merge(one: Fields, two: Fields) -> Fields:
    merged = dict(one)
    for token, below in two.items():
        merged[token] = _merge(merged[token], below) if token in merged else below
    return merged
