"""A span of the week in which something may be done: "Mon-Fri 09:00-17:00", "Sat,Sun 02:00-05:00", "22:00-04:00"."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from fleet.model.invalid import wrong
from fleet.model.week import GRAMMAR


def check_window(text: str) -> str:
    if GRAMMAR.fullmatch(text):
        return text
    raise wrong(f"{text!r} is not a window of time", "write days and hours, such as 'Mon-Fri 09:00-17:00'")


Window = Annotated[str, AfterValidator(check_window)]
