"""Spans of time as people write them: "30s", "5m", "1h30m", "14d"."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from fleet.model.invalid import wrong
from fleet.span import GRAMMAR, LONGEST

_LOOSE = re.compile(r"(\d+)\s*(w|d|h|m|s)[a-z]*", re.IGNORECASE)


def check_duration(text: str) -> str:
    if 0 < len(text) <= LONGEST and GRAMMAR.fullmatch(text):
        return text
    loose = _LOOSE.fullmatch(text.strip())
    near = f"{loose[1]}{loose[2].lower()}" if loose else ""
    units = "numbers with w, d, h, m or s, largest first, such as '30s', '5m' or '1h30m'"
    raise wrong(f"{text!r} is not a duration", f"did you mean {near!r}?" if near else f"write {units}")


Duration = Annotated[
    str,
    AfterValidator(check_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$",
            "minLength": 2,
            "maxLength": LONGEST,
        }
    ),
]
