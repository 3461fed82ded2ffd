"""Field paths, and which fields are ours as the API server recorded it in managedFields.

FieldsV1 is kept as the tree it is: `f:name` a field, `k:{…}` an item of a list with keys, `v:…` a value of a set, `.`
the thing itself; an empty tree is a field owned as a whole. None stands for "we own nothing here".

Field paths are as people write them: `spec.replicas`, `metadata.labels[a.b/c]`, `spec.containers[name=db].image`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.errors import ConfigurationError
from fleet.names import MANAGER

Fields = dict[str, Any]


def owned_fields(live: dict[str, Any], manager: str = MANAGER) -> Fields | None:
    """Return the union of what `manager` applied to the object itself; None if it never did."""
    union: Fields | None = None
    for entry in live.get("metadata", {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            fields = entry.get("fieldsV1") or {}
            union = fields if union is None else _merge_fields(union, fields)
    return union


def other_managers(live: dict[str, Any], manager: str = MANAGER) -> tuple[str, ...]:
    """Return the other managers with fields of the object; writers of the status alone do not make it theirs."""
    entries = live.get("metadata", {}).get("managedFields") or ()
    names = [entry.get("manager", "") for entry in entries if not entry.get("subresource")]
    return tuple(dict.fromkeys(name for name in names if name and name != manager))


def owned_field(owned: Fields | None, key: str) -> Fields | None:
    if owned is None:
        return None
    field: Fields | None = owned.get(f"f:{key}")
    return field


def parse_item_keys(token: str) -> dict[str, Any]:
    """Return the keys of an item: `k:{"name":"db"}` → {"name": "db"}."""
    keys: dict[str, Any] = orjson.loads(token[2:])
    return keys


def parse_set_value(token: str) -> Any:
    """Return a value of a set: `v:"a"` → "a"."""
    return orjson.loads(token[2:])


def _merge_fields(first: Fields, second: Fields) -> Fields:
    merged = dict(first)
    for token, below in second.items():
        merged[token] = _merge_fields(merged[token], below) if token in merged else below
    return merged


PART = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
PLAIN = re.compile(r"^[A-Za-z0-9_$-]+$")


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of a field path: a key of a map, a position in a list, or an item of a list by the `value`
    of its `key`.
    """

    key: str
    value: str | None = None  # of [key=value]
    bracketed: bool = False

    def selects(self, position: int, item: Any) -> bool:
        """Return whether the segment means this item of a list."""
        if self.key == "*":
            return True
        if self.value is not None:
            return isinstance(item, dict) and str(item.get(self.key)) == self.value
        return self.key == str(position)


def parse_path(path: str) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    position = 0
    while position < len(path):
        match = PART.match(path, position)
        if not match or match.end() == match.start():
            raise ConfigurationError(
                f"{path!r} is not a field path", hint="write it as spec.replicas or spec.containers[name=db].image"
            )
        word, inside = match.groups()
        if word is not None:
            segments.append(Segment(word))
        else:
            text = inside.strip("\"'")
            key, equals, value = text.partition("=")
            quoted = text != inside
            segments.append(Segment(key, value, True) if equals and not quoted else Segment(text, None, True))
        position = match.end()
    if not segments:
        raise ConfigurationError("an empty field path", hint="write it as spec.replicas")
    return tuple(segments)


def child_path(path: str, key: str) -> str:
    if not PLAIN.match(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def item_path(path: str, keys: dict[str, Any]) -> str:
    return f"{path}[{','.join(f'{name}={value}' for name, value in keys.items())}]"
