"""Durations ("30s", "5m", "1h30m", "14d") and weekly windows ("Mon-Fri 09:00-17:00", "22:00-04:00") as people write
them.

Custom resources and stacks hold durations of whole numbers; flags and fleet.toml also take parts of a second: "0.2s",
"500ms". Loads nothing heavy, for commands.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 0.001}
LONGEST_DURATION = 32  # letters; so every span is a number that clocks can work with
_WHOLE = [unit for unit in UNITS if unit != "ms"]
DURATION_GRAMMAR = re.compile("".join(rf"(?:(\d+){unit})?" for unit in _WHOLE))
_PRECISE = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in UNITS), re.ASCII)


def seconds(text: str) -> int:
    """Return the seconds of a checked duration; raise ValueError where it is none."""
    match = DURATION_GRAMMAR.fullmatch(text)
    if not match or not text:
        raise ValueError(f"{text!r} is not a duration")
    return sum(int(number or 0) * int(UNITS[unit]) for unit, number in zip(_WHOLE, match.groups(), strict=True))


def parse_duration(text: str) -> float:
    """Return the seconds of any text that people wrote; raise ValueError where it is no duration."""
    match = _PRECISE.fullmatch(text)
    if not match or not 0 < len(text) <= LONGEST_DURATION:
        raise ValueError(f"{text!r} is not a duration")
    return sum(float(number or 0) * factor for number, factor in zip(match.groups(), UNITS.values(), strict=True))


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = f"(?:{'|'.join(DAYS)})"
WINDOW_GRAMMAR = re.compile(
    rf"(?:(?P<days>{_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*) )?"
    r"(?P<from>([01]\d|2[0-3]):[0-5]\d)-(?P<to>(?:([01]\d|2[0-3]):[0-5]\d)|24:00)"
)


class WeeklyWindow(NamedTuple):
    """A weekly window: the days on which it begins, and its minutes from midnight; one that ends past midnight has
    `end` over 1440.
    """

    days: frozenset[int]
    begin: int
    end: int

    def holds(self, now: datetime) -> bool:
        minute = now.hour * 60 + now.minute
        yesterday = (now.weekday() - 1) % 7
        return (now.weekday() in self.days and self.begin <= minute < self.end) or (
            yesterday in self.days and minute + 1440 < self.end
        )

    def begins_after(self, now: datetime) -> datetime:
        """Return the next beginning after a time."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        begins = (midnight + timedelta(days=day, minutes=self.begin) for day in range(8))
        return next(begin for begin in begins if begin > now and begin.weekday() in self.days)


def parse_window(text: str) -> WeeklyWindow:
    """Return the window of a checked text; raise ValueError where it is none."""
    match = WINDOW_GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a window")
    begin, end = _parse_minutes(match["from"]), _parse_minutes(match["to"])
    return WeeklyWindow(_parse_days(match["days"] or "Mon-Sun"), begin, end if end > begin else end + 1440)


def _parse_minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _parse_days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days.update((begin + number) % 7 for number in range((end - begin) % 7 + 1))
    return frozenset(days)
