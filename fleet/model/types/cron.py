"""Times of day and week in cron's notation, as CronJobs take them: "0 3 * * *", "@daily"."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, WithJsonSchema

from fleet.model.invalid import wrong
from fleet.printable import count_noun

_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_ITEM = re.compile(r"(\*|\?|[a-z0-9]+(?:-[a-z0-9]+)?)(?:/(\d+))?")


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
    _Field("day of the week", 0, 7, _DAYS),
)


def check_cron(text: str) -> str:
    if text.startswith("@"):
        if text in _MACROS:
            return text
        raise wrong(f"{text!r} is not a schedule", f"there are: {', '.join(_MACROS)}")
    parts = text.split()
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
            first, last = field.low, min(field.high, 6) if field.words == _DAYS else field.high
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
    if not word.isdigit() or not field.low <= int(word) <= field.high:
        raise _misfit(line, field, word)
    return int(word)


def _misfit(line: str, field: _Field, item: str) -> Exception:
    return wrong(
        f"{line!r}: {item!r} is no {field.title}", f"for the {field.title}: {field.low} to {field.high}, or '*'"
    )


Cron = Annotated[str, AfterValidator(check_cron), WithJsonSchema({"type": "string", "minLength": 6, "maxLength": 128})]
