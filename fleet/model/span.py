"""How long a span of time is that people have written: "30s", "5m", "1h30m", "14d". Loads nothing, for commands."""

from __future__ import annotations

import re

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
GRAMMAR = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds(text: str) -> int:
    """Of a checked duration."""
    match = GRAMMAR.fullmatch(text)
    if not match or not text:
        raise ValueError(f"{text!r} is not a duration")
    return sum(int(number or 0) * factor for number, factor in zip(match.groups(), UNITS.values(), strict=True))
