"""How long a span of time is that people have written: "30s", "5m", "1h30m", "14d". Loads nothing, for commands.

Custom resources and stacks hold whole numbers; flags and fleet.toml also take parts of a second: "0.2s", "500ms".
"""

from __future__ import annotations

import re

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 0.001}
LONGEST = 32  # letters; so every span is a number that clocks can work with
_WHOLE = [unit for unit in UNITS if unit != "ms"]
GRAMMAR = re.compile("".join(rf"(?:(\d+){unit})?" for unit in _WHOLE))
_PRECISE = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in UNITS), re.ASCII)


def seconds(text: str) -> int:
    """Of a checked duration."""
    match = GRAMMAR.fullmatch(text)
    if not match or not text:
        raise ValueError(f"{text!r} is not a duration")
    return sum(int(number or 0) * int(UNITS[unit]) for unit, number in zip(_WHOLE, match.groups(), strict=True))


def precise(text: str) -> float:
    """Of anything that people wrote; ValueError where it is no duration."""
    match = _PRECISE.fullmatch(text)
    if not match or not 0 < len(text) <= LONGEST:
        raise ValueError(f"{text!r} is not a duration")
    return sum(float(number or 0) * factor for number, factor in zip(match.groups(), UNITS.values(), strict=True))
