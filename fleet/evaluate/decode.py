"""JSON data into frozen dataclasses, strictly: every field there, none unknown, every type exactly the one declared.

The readers are made once per class from its annotations, so that thousands of objects are read quickly, and what the
sending side may send is written down in one place: the classes.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Reader = Callable[[Any], Any]


class MalformedError(ValueError):
    """Data that is not of the form agreed."""


def decode(cls: type[T], data: Any) -> T:
    """An instance of the dataclass from what `orjson.loads` gave."""
    read: Reader = _reader(cls)  # type: ignore[arg-type]
    value: T = read(data)
    return value


@cache
def _reader(kind: Any) -> Reader:
    if kind is Any:
        return lambda data: data
    if is_dataclass(kind):
        return _dataclass(kind)  # type: ignore[arg-type]
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _named_tuple(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _tuple(_reader(arguments[0]))
        raise TypeError(f"no reader for {kind}")
    if origin is dict:
        return _dict(_reader(arguments[1]))
    if origin in (types.UnionType, typing.Union):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        read = _reader(inner)
        return lambda data: None if data is None else read(data)
    if kind in (str, int, bool, float):
        return _exactly(kind)
    raise TypeError(f"no reader for {kind}")


def _exactly(kind: type) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not kind:
            raise MalformedError(f"{type(data).__name__} in the place of {kind.__name__}")
        return data

    return read


def _tuple(item: Reader) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not list:
            raise MalformedError(f"{type(data).__name__} in the place of a list")
        return tuple([item(one) for one in data])

    return read


def _named_tuple(kind: Any) -> Reader:
    readers = tuple(_reader(hint) for hint in typing.get_type_hints(kind).values())

    def read(data: Any) -> Any:
        if type(data) is not list or len(data) != len(readers):
            raise MalformedError(f"something else in the place of {kind.__name__}")
        return kind(*(item(one) for item, one in zip(readers, data, strict=True)))

    return read


def _dict(value: Reader) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise MalformedError(f"{type(data).__name__} in the place of a mapping")
        return {name: value(one) for name, one in data.items()}

    return read


def _dataclass(cls: type) -> Reader:
    hints = typing.get_type_hints(cls)
    given = [one for one in fields(cls) if one.init]
    readers = {one.name: _reader(hints[one.name]) for one in given}
    required = {one.name for one in given if one.default is MISSING and one.default_factory is MISSING}

    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise MalformedError(f"{type(data).__name__} in the place of {cls.__name__}")
        if not required <= data.keys() <= readers.keys():
            odd = (required - data.keys()) | (data.keys() - readers.keys())
            raise MalformedError(f"{cls.__name__} with or without {', '.join(sorted(odd))}")
        try:
            return cls(**{name: readers[name](value) for name, value in data.items()})
        except MalformedError as error:
            raise MalformedError(f"{cls.__name__}.{_wrong(readers, data)}: {error}") from None

    return read


def _wrong(readers: dict[str, Reader], data: dict[str, Any]) -> str:
    """Which field it is; asked only on the way to an error."""
    for name, value in data.items():
        try:
            readers[name](value)
        except MalformedError:
            return name
    return "?"
