"""JSON of a forge, read field by field: a field that is missing or of another type is named by its path. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from fleet.errors import FleetError


class UnreadableError(FleetError):
    """JSON that is not what the forge's description says; its reader turns it into an error of the right kind."""


class JsonObject:
    """An object in JSON. Paths are dotted: `text("head.repo.full_name")`."""

    __slots__ = ("_data", "_where")

    def __init__(self, data: object, where: str = "") -> None:
        if not isinstance(data, dict):
            raise UnreadableError(f"{where or 'it'} is no JSON object")
        self._data: dict[str, Any] = data
        self._where = where

    @classmethod
    def of(cls, content: bytes) -> JsonObject:
        return cls(parse_json(content))

    def text(self, path: str) -> str:
        value = self._find(path)
        if not isinstance(value, str):
            raise UnreadableError(f"{self._name(path)} is no text")
        return value

    def number(self, path: str) -> int:
        value = self._find(path)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnreadableError(f"{self._name(path)} is no whole number")
        return value

    def commit(self, path: str) -> str:
        """Return the id of a commit."""
        value = self.text(path)
        if len(value) not in (40, 64) or not all(letter in "0123456789abcdef" for letter in value):
            raise UnreadableError(f"{self._name(path)} is no commit")
        return value

    def some_text(self, path: str) -> str:
        """Return the text, or "" where it is null or missing, or where what contains it is."""
        value = self._find(path)
        return value if isinstance(value, str) else ""

    def has(self, path: str) -> bool:
        """Return whether a field is present and neither null nor false."""
        return self._find(path) not in (None, False)

    def part(self, path: str) -> JsonObject:
        return JsonObject(self._find(path), self._name(path))

    def _find(self, path: str) -> Any:
        value: Any = self._data
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def _name(self, path: str) -> str:
        return f"{self._where}.{path}" if self._where else path


def read_list(data: object) -> Iterator[JsonObject]:
    """Yield the objects of a list."""
    if not isinstance(data, list):
        raise UnreadableError("it is no list in JSON")
    for number, item in enumerate(data):
        yield JsonObject(item, f"[{number}]")


def parse_json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"it is no JSON: {error}") from None
