"""Times of day and week in cron's notation: "0 3 * * *", "@daily". What is taken here, CronJobs take too.

Kubernetes reads schedules with robfig/cron, which differs from other crons (Sunday is 0 and never 7); a test compares
with an API server. Some of what it takes is refused: what never comes, and what it reads otherwise than it looks.
"""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, ValidationInfo, WithJsonSchema

from fleet.model.invalid import wrong
from fleet.model.rule import STORED
from fleet.printable import count_noun

_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_ITEM = re.compile(r"(\*|\?|[a-z0-9]+(?:-[a-z0-9]+)?)(?:/([0-9]{1,4}))?")
_SPACE = re.compile(r"[ \t]+")
_LONGEST = 128


class _Field(NamedTuple):
    title: str
    low: int
    high: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 6, _DAYS),
)


def check_cron(text: str, info: ValidationInfo) -> str:
    """Return the schedule. One that a cluster has already is left to the cluster, which says what it does not take."""
    return text if (info.context or {}).get(STORED) else _checked(text)


def _checked(text: str) -> str:
    if len(text) > _LONGEST:
        raise wrong(f"{text[:40]!r}… is longer than {_LONGEST} characters")
    if text.startswith("@"):
        if text in _MACROS:
            return text
        raise wrong(f"{text!r} is not a schedule", f"there are: {', '.join(_MACROS)}")
    parts = _SPACE.split(text.strip(" \t"))
    if len(parts) != len(_FIELDS):
        raise wrong(
            f"{text!r} has {count_noun(len(parts), 'field')}, a schedule has 5",
            "minute, hour, day of the month, month, day of the week: '0 3 * * *' is every day at 03:00",
        )
    values = [_values(part, field, text) for part, field in zip(parts, _FIELDS, strict=True)]
    days, months = values[2], values[3]
    if parts[4] in ("*", "?") and all(min(days) > _LONGEST_MONTH[month] for month in months):
        raise wrong(f"{text!r} never comes: no such month has a day {min(days)}")
    return text


def _values(part: str, field: _Field, line: str) -> set[int]:
    found: set[int] = set()
    for item in part.lower().split(","):
        match = _ITEM.fullmatch(item)
        if not match:
            raise _misfit(line, field, item)
        if match[1] in ("*", "?"):
            first, last = field.low, field.high
        else:
            low, _, high = match[1].partition("-")
            first = _number(low, field, line)
            last = _number(high, field, line) if high else (field.high if match[2] else first)
        step = int(match[2] or 1)
        if first > last or step == 0:
            raise _misfit(line, field, item)
        found |= set(range(first, last + 1, step))
    return found


def _number(word: str, field: _Field, line: str) -> int:
    if word in field.words:
        return field.words.index(word) + field.low
    if not (word.isascii() and word.isdigit() and len(word) <= 4) or not field.low <= int(word) <= field.high:
        raise _misfit(line, field, word)
    return int(word)


def _misfit(line: str, field: _Field, item: str) -> Exception:
    allowed = f"for the {field.title}: {field.low} to {field.high}, or '*'"
    if field.words:
        allowed = f"{allowed}, or {field.words[0]} to {field.words[-1]}"
    return wrong(f"{line!r}: {item!r} is no {field.title}", allowed)


Cron = Annotated[
    str, AfterValidator(check_cron), WithJsonSchema({"type": "string", "minLength": 6, "maxLength": _LONGEST})
]
