"""A span of the week that people have written: "Mon-Fri 09:00-17:00", "22:00-04:00". Loads nothing, for commands."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = f"(?:{'|'.join(DAYS)})"
GRAMMAR = re.compile(
    rf"(?:(?P<days>{_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*) )?"
    r"(?P<from>([01]\d|2[0-3]):[0-5]\d)-(?P<to>(?:([01]\d|2[0-3]):[0-5]\d)|24:00)"
)


class Span(NamedTuple):
    """The days on which it begins, and its minutes from midnight; one that ends past midnight has `to` over 1440."""

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
        """The next beginning."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        begins = (midnight + timedelta(days=day, minutes=self.begin) for day in range(8))
        return next(one for one in begins if one > now and one.weekday() in self.days)


def span(text: str) -> Span:
    """Of a checked text."""
    match = GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a window")
    begin, end = _minutes(match["from"]), _minutes(match["to"])
    return Span(_days(match["days"] or "Mon-Sun"), begin, end if end > begin else end + 1440)


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        found.update((begin + number) % 7 for number in range((end - begin) % 7 + 1))
    return frozenset(found)
