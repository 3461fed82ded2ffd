"""`ignore_changes`: fields that get their first value from git and are left alone ever after.

Leaving such a field out would make server-side apply remove it wherever we own it; so where it is ours the live value
is sent back, and where somebody has taken it over it is no longer sent at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from fleet.plan import paths
from fleet.plan.owned import Fields, field_of, item_keys
from fleet.plan.paths import Segment


def with_ignored(
    desired: dict[str, Any], live: dict[str, Any], owned: Fields | None, ignored: Iterable[str]
) -> dict[str, Any]:
    """The manifest with the live value (or nothing) in every ignored place."""
    segments = [paths.parse(path) for path in ignored]
    if not segments:
        return desired
    manifest = deepcopy(desired)
    for path in segments:
        _leave(manifest, live, owned, path)
    return manifest


def _leave(desired: Any, live: Any, owned: Fields | None, path: tuple[Segment, ...]) -> None:
    segment, rest = path[0], path[1:]
    if isinstance(desired, dict) and segment.value is None:
        for key in list(desired) if segment.key == "*" else [segment.key]:
            below = {} if owned == {} else field_of(owned, key)
            there = isinstance(live, dict) and key in live
            if rest:
                if key in desired:
                    _leave(desired[key], live[key] if there else None, below, rest)
            elif there and below is not None:
                desired[key] = deepcopy(live[key])
            else:
                desired.pop(key, None)
    elif isinstance(desired, list) and rest:
        for position, item in enumerate(desired):
            if segment.selects(position, item):
                other = _counterpart(live, owned, position, item)
                _leave(item, other, _owned_item(owned, other), rest)


def _counterpart(live: Any, owned: Fields | None, position: int, item: Any) -> Any:
    """The live item for a desired one: by the list's keys where they are known, else by `name`, else by position."""
    if not isinstance(live, list):
        return None
    token = next((token for token in owned or () if token.startswith("k:")), None)
    names = tuple(item_keys(token)) if token else ("name",)
    if isinstance(item, dict) and any(name in item for name in names):
        wanted = {name: item[name] for name in names if name in item}
        return next((other for other in live if isinstance(other, dict) and wanted.items() <= other.items()), None)
    return live[position] if position < len(live) else None


def _owned_item(owned: Fields | None, live_item: Any) -> Fields | None:
    if not owned:
        return owned
    if isinstance(live_item, dict):
        for token, below in owned.items():
            if token.startswith("k:") and item_keys(token).items() <= live_item.items():
                fields: Fields = below
                return fields
    return None
