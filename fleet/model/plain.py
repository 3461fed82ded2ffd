"""Plain data: what JSON can hold. Everything that leaves a user's code is made of it."""

from __future__ import annotations

import math
from typing import Any

from fleet.model.invalid import wrong

_LARGEST = 2**63


def check_plain(value: Any, path: str = "") -> None:
    """Raise for anything that JSON (and the API server) cannot hold, naming where in the value it is."""
    where = f"{path}: " if path else ""
    if value is None or isinstance(value, str | bool):
        return
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise wrong(f"{where}{value} does not fit into 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise wrong(f"{where}{value} is not a number that JSON has")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_plain(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise wrong(f"{where}key {key!r} is {type(key).__name__}, not a string", f"quote it: {str(key)!r}")
            check_plain(item, f"{path}.{key}" if path else key)
    else:
        kind = type(value).__name__
        raise wrong(f"{where}{kind} is not plain data", "strings, numbers, True and False, None, lists and dicts are")


def copied(value: Any) -> Any:
    """A copy of plain data that shares nothing with it; subclasses of str, int and so on become what they are."""
    if isinstance(value, dict):
        return {str(key): copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    return value
