"""Fields of what a member answered, each no longer than any engine would have it. Pure.

Numbers may be strings, as they are where ids have 64 bits, and fields that are zero, empty or false may be left out.
What cannot be so raises ValueError or TypeError, and then nothing is known: see `HttpMembers.understood`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOST_ITEMS = 64  # of a list: there are fewer members in any app
MOST_CHARACTERS = 1024  # of a text
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}(\.\d{1,6})?")


def cut_text(value: object) -> str:
    """Return a value as a text, cut where it is longer than any that is of use."""
    return str(value)[:MOST_CHARACTERS]


def read_text(data: Mapping[str, Any], field: str) -> str:
    return cut_text(data.get(field, ""))


def read_number(data: Mapping[str, Any], field: str) -> int:
    """Return a number of 64 bits; 0 where the field is left out."""
    number = int(data.get(field, 0))
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{field} is no number of 64 bits")
    return number


def read_items(data: Mapping[str, Any], field: str) -> list[Any]:
    """Return a list; an empty one where the field is left out."""
    items = data.get(field) or []
    if not isinstance(items, list) or len(items) > MOST_ITEMS:
        raise ValueError(f"{field} is no list of {MOST_ITEMS} at most")
    return items


def read_release(data: Mapping[str, Any], field: str) -> str:
    """Return a version: what is compared with others must be one."""
    text = read_text(data, field)
    if not _RELEASE.fullmatch(text):
        raise ValueError(f"{field} {text[:40]!r} is no release")
    return text
