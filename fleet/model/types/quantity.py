"""Amounts of storage, memory and CPU in Kubernetes' notation: "100Gi", "500m", "2"."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic.fields import FieldInfo

from fleet.model.invalid import wrong

_LONGEST = 32
_GRAMMAR = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?")
_LOOSE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP])i?b?(yte)?s?", re.IGNORECASE)
_FACTORS = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000)}
_FACTORS |= {letter: Decimal(1000) ** power for power, letter in enumerate("MGTPE", start=2)}
_FACTORS |= {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}


def amount(text: str) -> Decimal:
    """The number that a checked quantity stands for: bytes, or CPUs."""
    match = _GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(match[1]) * _FACTORS[match[2] or ""]


def is_quantity(field: FieldInfo) -> bool:
    """Whether a model's field is one, required or not."""
    inner = [mark for part in get_args(field.annotation) for mark in getattr(part, "__metadata__", ())]
    return any(getattr(mark, "func", None) is check_quantity for mark in (*field.metadata, *inner))


def check_quantity(text: str) -> str:
    if not _GRAMMAR.fullmatch(text):
        loose = _LOOSE.fullmatch(text.strip())
        letter = loose[2].upper() if loose else ""
        near = f"{loose[1]}{letter}i" if loose else ""
        hint = f"did you mean {near!r}?" if near else "write a number and a unit, such as '100Gi', '512Mi' or '500m'"
        raise wrong(f"{text!r} is not a quantity", hint)
    if len(text) > _LONGEST:
        raise wrong(f"{text[:_LONGEST]!r}… is longer than {_LONGEST} characters", "use a larger unit, such as 'Gi'")
    if amount(text) == 0:
        raise wrong(f"{text!r} is nothing: a quantity must be more than 0")
    return text


def _check_text(value: Any) -> Any:
    """A bare number has no unit: of storage it would be bytes."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise wrong(f"must be a string with a unit, not {value:g}", f"'{value:g}Gi' of storage, '{value:g}' of CPUs")
    return value


Quantity = Annotated[
    str,
    BeforeValidator(_check_text),
    AfterValidator(check_quantity),
    WithJsonSchema(
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$", "maxLength": _LONGEST}
    ),
]
