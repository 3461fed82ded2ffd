"""Which of an engine's flags can be said in its file, under which key, and as what. Pure.

A file is rarely read strictly: a key that the engine does not know is no setting, and nobody is told. And a value of
another type than it wants may keep it from starting. So only flags of a table are taken into a file, and each by the
function that reads its type; the engine's source says which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


class InFile(NamedTuple):
    """How a file has what a flag says."""

    read: Callable[[str], Any]  # the text of a flag as a file has it; None where it is no such thing
    key: str = ""  # where it is not the flag's name
    part: str = ""  # the section that it is in

    def put(self, settings: dict[str, Any], name: str, value: Any) -> None:
        """Set the value of the flag `name` in the settings of a file."""
        part = settings.setdefault(self.part, {}) if self.part else settings
        part[self.key or name] = value


def list_flags(kinds: Iterable[tuple[str, Callable[[str], Any]]]) -> Mapping[str, InFile]:
    """Return the table of flags that a file has under their own names: texts of names, each with what reads them."""
    return {name: InFile(read) for names, read in kinds for name in names.split()}


def read_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def read_boolean(text: str) -> bool | None:
    """Return a boolean as Go's programs take it."""
    return text in _TRUE if text in (*_TRUE, *_FALSE) else None


def read_nanoseconds(text: str) -> int | None:
    """Return a time as Go writes it, such as 1h30m, 100ms or 0, in nanoseconds."""
    if text == "0":
        return 0
    parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", text)
    whole = "".join(number + unit for number, unit in parts) == text and bool(parts)
    return int(sum(float(number) * _UNITS[unit] for number, unit in parts)) if whole else None


def read_list(text: str) -> list[str]:
    return text.split(",") if text else []
