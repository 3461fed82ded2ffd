"""What of a live object matters to whoever wants it: its content, and how it is. Pure.

A watch tells every change, and most are none: versions, heartbeats, the bookkeeping of other managers.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import orjson

from fleet.model.desired import Key
from fleet.sync.outcome import ObjectHealth
from fleet.sync.waiting import judged

_NOISE = frozenset({"resourceVersion", "managedFields", "generation", "selfLink"})


class Notice(NamedTuple):
    content: bytes  # a digest of all but the status
    health: ObjectHealth


def notice(key: Key, found: dict[str, Any], *, is_app: bool) -> Notice:
    metadata = {name: value for name, value in found["metadata"].items() if name not in _NOISE}
    content = {**found, "metadata": metadata}
    content.pop("status", None)
    text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return Notice(hashlib.blake2b(text, digest_size=16).digest(), judged(key, found, is_app=is_app))
