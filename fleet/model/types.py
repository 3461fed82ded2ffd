"""Types of fields: names, quantities, durations, schedules, windows, versions, lists.

Schedules are in cron's notation: "0 3 * * *", "@daily". What is allowed, CronJobs allow too. Kubernetes reads schedules
with robfig/cron, which differs from other crons (Sunday is 0 and never 7); a test compares with an API server. Some of
what it allows is refused: what never comes, and what it reads otherwise than it looks.

Durations are as people write them: "30s", "5m", "1h30m", "14d". Windows are spans of the week: "Mon-Fri 09:00-17:00",
"Sat,Sun 02:00-05:00", "22:00-04:00".

Users write several values as a list, and what is kept is a tuple, so that nothing can be added to it later.

Names are as Kubernetes takes them: lower-case letters, digits and dashes. Amounts of storage, memory and CPU are in
Kubernetes' notation: "100Gi", "500m", "2". Versions of engines: "17", "3.5" (its newest patch) or "3.5.21" (exactly
that).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema
from pydantic.fields import FieldInfo

from fleet.model.base import STORED
from fleet.model.validation import invalid_value
from fleet.text import count_noun
from fleet.times import DURATION_GRAMMAR, LONGEST_DURATION, WINDOW_GRAMMAR

_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_ITEM = re.compile(r"(\*|\?|[a-z0-9]+(?:-[a-z0-9]+)?)(?:/([0-9]{1,4}))?")
_SPACE = re.compile(r"[ \t]+")
_LONGEST_CRON = 128


class _Field(NamedTuple):
    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 6, _DAYS),
)


def check_cron(text: str, info: ValidationInfo) -> str:
    """Return the schedule. One that a cluster has already is left to the cluster, which says what it does not take."""
    return text if (info.context or {}).get(STORED) else _check_schedule(text)


def _check_schedule(text: str) -> str:
    if len(text) > _LONGEST_CRON:
        raise invalid_value(f"{text[:40]!r}… is longer than {_LONGEST_CRON} characters")
    if text.startswith("@"):
        if text in _MACROS:
            return text
        raise invalid_value(f"{text!r} is not a schedule", f"there are: {', '.join(_MACROS)}")
    parts = _SPACE.split(text.strip(" \t"))
    if len(parts) != len(_FIELDS):
        raise invalid_value(
            f"{text!r} has {count_noun(len(parts), 'field')}, a schedule has 5",
            "minute, hour, day of the month, month, day of the week: '0 3 * * *' is every day at 03:00",
        )
    values = [_parse_cron_item(part, field, text) for part, field in zip(parts, _FIELDS, strict=True)]
    days, months = values[2], values[3]
    if parts[4] in ("*", "?") and all(min(days) > _LONGEST_MONTH[month] for month in months):
        raise invalid_value(f"{text!r} never comes: no such month has a day {min(days)}")
    return text


def _parse_cron_item(part: str, field: _Field, line: str) -> set[int]:
    numbers: set[int] = set()
    for item in part.lower().split(","):
        match = _ITEM.fullmatch(item)
        if not match:
            raise _cron_error(line, field, item)
        if match[1] in ("*", "?"):
            first, last = field.low, field.high
        else:
            low, _, high = match[1].partition("-")
            first = _parse_cron_number(low, field, line)
            last = _parse_cron_number(high, field, line) if high else (field.high if match[2] else first)
        step = int(match[2] or 1)
        if first > last or step == 0:
            raise _cron_error(line, field, item)
        numbers |= set(range(first, last + 1, step))
    return numbers


def _parse_cron_number(word: str, field: _Field, line: str) -> int:
    if word in field.names:
        return field.names.index(word) + field.low
    if not (word.isascii() and word.isdigit() and len(word) <= 4) or not field.low <= int(word) <= field.high:
        raise _cron_error(line, field, word)
    return int(word)


def _cron_error(line: str, field: _Field, item: str) -> Exception:
    allowed = f"for the {field.title}: {field.low} to {field.high}, or '*'"
    if field.names:
        allowed = f"{allowed}, or {field.names[0]} to {field.names[-1]}"
    return invalid_value(f"{line!r}: {item!r} is no {field.title}", allowed)


Cron = Annotated[
    str, AfterValidator(check_cron), WithJsonSchema({"type": "string", "minLength": 6, "maxLength": _LONGEST_CRON})
]


_LOOSE_DURATION = re.compile(r"(\d+)\s*(w|d|h|m|s)[a-z]*", re.IGNORECASE)


def check_duration(text: str) -> str:
    if 0 < len(text) <= LONGEST_DURATION and DURATION_GRAMMAR.fullmatch(text):
        return text
    loose = _LOOSE_DURATION.fullmatch(text.strip())
    similar = f"{loose[1]}{loose[2].lower()}" if loose else ""
    units = "numbers with w, d, h, m or s, largest first, such as '30s', '5m' or '1h30m'"
    raise invalid_value(f"{text!r} is not a duration", f"did you mean {similar!r}?" if similar else f"write {units}")


Duration = Annotated[
    str,
    AfterValidator(check_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$",
            "minLength": 2,
            "maxLength": LONGEST_DURATION,
        }
    ),
]


T = TypeVar("T")

Many = Annotated[Sequence[T], AfterValidator(tuple)]


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_EXPORT = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]*")
LONGEST = 63  # of a DNS label
LONGEST_OBJECT = 253  # of a DNS subdomain
LONGEST_APP = 40  # leaves room for what is made of it: pods, services, secrets, and the hash in a pod's label


def check_name(text: str) -> str:
    """Return the text if it is a DNS label."""
    return _check_label(text, LONGEST)


def check_app_name(text: str) -> str:
    """Return the text if it is a DNS label that starts with a letter, as names of Services must, and leaves room for
    suffixes.
    """
    _check_label(text, LONGEST_APP)
    if not text[0].isalpha():
        raise invalid_value(
            f"{text!r} must start with a letter: it becomes the name of a Service", _propose_name(f"app-{text}")
        )
    return text


def check_object_name(text: str) -> str:
    """Return the text if it is a name of an object that need not be a DNS label: a Secret, a StorageClass."""
    if text and _SUBDOMAIN.fullmatch(text) and ".." not in text and len(text) <= LONGEST_OBJECT:
        return text
    allowed = "lower-case letters, digits, dashes and dots, starting and ending with a letter or digit"
    raise invalid_value(f"{text!r} is not the name of an object: {allowed}", _propose_name(text))


def check_export_name(text: str) -> str:
    if _EXPORT.fullmatch(text):
        return text
    raise invalid_value(
        f"{text!r} is not a name: letters, digits, dashes, dots and underscores, starting with a letter"
    )


def _check_label(text: str, longest: int) -> str:
    if not text:
        raise invalid_value("a name is missing", "give one such as 'orders-db'")
    if not _LABEL.fullmatch(text):
        allowed = "lower-case letters, digits and dashes, starting and ending with a letter or digit"
        raise invalid_value(f"{text!r} is not a name: {allowed}", _propose_name(text))
    if len(text) > longest:
        raise invalid_value(f"{text!r} has {count_noun(len(text), 'character')}, {longest} is the most")
    return text


def _propose_name(text: str) -> str | None:
    """Return a name that is near to what was written and would be right, as a hint."""
    kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text)
    plain = re.sub(r"[^a-z0-9]+", "-", kebab.lower()).strip("-")
    return f"{plain!r} would be right" if plain else None


def _name_schema(longest: int, pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": longest})


Name = Annotated[str, AfterValidator(check_name), _name_schema(LONGEST, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
AppName = Annotated[str, AfterValidator(check_app_name), _name_schema(LONGEST_APP, "^[a-z]([-a-z0-9]*[a-z0-9])?$")]
OBJECT_NAME = _name_schema(LONGEST_OBJECT, "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
ObjectName = Annotated[str, AfterValidator(check_object_name), OBJECT_NAME]
ExportName = Annotated[str, AfterValidator(check_export_name)]


_LONGEST_QUANTITY = 32
_QUANTITY_GRAMMAR = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?")
_LOOSE_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP])i?b?(yte)?s?", re.IGNORECASE)
_FACTORS = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000)}
_FACTORS |= {letter: Decimal(1000) ** power for power, letter in enumerate("MGTPE", start=2)}
_FACTORS |= {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}


def amount(text: str) -> Decimal:
    """Return the number that a checked quantity stands for: bytes, or CPUs."""
    match = _QUANTITY_GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(match[1]) * _FACTORS[match[2] or ""]


def is_quantity(field: FieldInfo) -> bool:
    """Return whether a model's field is a quantity, required or not."""
    inner = [mark for part in get_args(field.annotation) for mark in getattr(part, "__metadata__", ())]
    return any(getattr(mark, "func", None) is check_quantity for mark in (*field.metadata, *inner))


def check_quantity(text: str) -> str:
    if not _QUANTITY_GRAMMAR.fullmatch(text):
        loose = _LOOSE_QUANTITY.fullmatch(text.strip())
        letter = loose[2].upper() if loose else ""
        similar = f"{loose[1]}{letter}i" if loose else ""
        hint = (
            f"did you mean {similar!r}?" if similar else "write a number and a unit, such as '100Gi', '512Mi' or '500m'"
        )
        raise invalid_value(f"{text!r} is not a quantity", hint)
    if len(text) > _LONGEST_QUANTITY:
        raise invalid_value(
            f"{text[:_LONGEST_QUANTITY]!r}… is longer than {_LONGEST_QUANTITY} characters",
            "use a larger unit, such as 'Gi'",
        )
    if amount(text) == 0:
        raise invalid_value(f"{text!r} is nothing: a quantity must be more than 0")
    return text


def _check_is_text(value: Any) -> Any:
    """Raise an error for a bare number: it has no unit, and of storage it would be bytes."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise invalid_value(
            f"must be a string with a unit, not {value:g}", f"'{value:g}Gi' of storage, '{value:g}' of CPUs"
        )
    return value


Quantity = Annotated[
    str,
    BeforeValidator(_check_is_text),
    AfterValidator(check_quantity),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$",
            "maxLength": _LONGEST_QUANTITY,
        }
    ),
]


_VERSION_GRAMMAR = re.compile(r"(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?(?:\.(0|[1-9]\d*))?")
PATTERN = r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){0,2}$"


class Release(NamedTuple):
    """A version in parts; a part that is not given is None."""

    major: int
    minor: int | None = None
    patch: int | None = None

    @property
    def series(self) -> tuple[int, int]:
        """Return what upgrades are counted in for engines with minor releases: (3, 5)."""
        return self.major, self.minor or 0

    def __str__(self) -> str:
        return ".".join(str(part) for part in self if part is not None)


def release(text: str) -> Release:
    """Return the parts of a checked version."""
    match = _VERSION_GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a version")
    return Release(*(int(part) if part is not None else None for part in match.groups()))  # type: ignore[arg-type]


def check_version(text: str) -> str:
    if _VERSION_GRAMMAR.fullmatch(text):
        return text
    numbers = re.search(r"\d+(\.\d+){0,2}", text)
    hint = f"write {numbers[0]!r}" if numbers else "write numbers with dots, such as '3.5' or '3.5.21'"
    raise invalid_value(f"{text!r} is not a version", hint)


Version = Annotated[
    str, AfterValidator(check_version), WithJsonSchema({"type": "string", "pattern": PATTERN, "maxLength": 32})
]


def check_window(text: str) -> str:
    if WINDOW_GRAMMAR.fullmatch(text):
        return text
    raise invalid_value(f"{text!r} is not a window of time", "write days and hours, such as 'Mon-Fri 09:00-17:00'")


Window = Annotated[str, AfterValidator(check_window)]
