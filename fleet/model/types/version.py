"""Versions of engines: "17", "3.5" (its newest patch) or "3.5.21" (exactly that)."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, WithJsonSchema

from fleet.model.invalid import wrong

_GRAMMAR = re.compile(r"(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?(?:\.(0|[1-9]\d*))?")
PATTERN = r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){0,2}$"


class Release(NamedTuple):
    """A version in parts; a part that was not said is None."""

    major: int
    minor: int | None = None
    patch: int | None = None

    @property
    def series(self) -> tuple[int, int]:
        """What upgrades are counted in for engines with minor releases: (3, 5)."""
        return self.major, self.minor or 0

    def __str__(self) -> str:
        return ".".join(str(part) for part in self if part is not None)


def release(text: str) -> Release:
    """The parts of a checked version."""
    match = _GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a version")
    return Release(*(int(part) if part is not None else None for part in match.groups()))  # type: ignore[arg-type]


def check_version(text: str) -> str:
    if _GRAMMAR.fullmatch(text):
        return text
    numbers = re.search(r"\d+(\.\d+){0,2}", text)
    hint = f"write {numbers[0]!r}" if numbers else "write numbers with dots, such as '3.5' or '3.5.21'"
    raise wrong(f"{text!r} is not a version", hint)


Version = Annotated[
    str, AfterValidator(check_version), WithJsonSchema({"type": "string", "pattern": PATTERN, "maxLength": 32})
]
