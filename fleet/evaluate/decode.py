"""The strict decoder of JSON data into frozen dataclasses: no field missing or unknown, every type exactly as declared.

Readers are made once per class from its annotations, so that thousands of objects are read quickly, and so that what
the sender may send is written down in one place: the classes.
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
    """Return an instance of the dataclass from the data of `orjson.loads`; raise MalformedError if it does not fit."""
    read: Reader = _make_reader(cls)  # type: ignore[arg-type]
    value: T = read(data)
    return value


@cache
def _make_reader(kind: Any) -> Reader:
    """Return the reader of an annotated type; raise TypeError for a type that no answer has."""
    if kind is Any:
        return lambda data: data
    if is_dataclass(kind):
        return _make_dataclass_reader(kind)  # type: ignore[arg-type]
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _make_named_tuple_reader(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _make_tuple_reader(_make_reader(arguments[0]))
        raise TypeError(f"no reader for {kind}")
    if origin is dict:
        return _make_dict_reader(_make_reader(arguments[1]))
    if origin in (types.UnionType, typing.Union):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        read = _make_reader(inner)
        return lambda data: None if data is None else read(data)
    if kind in (str, int, bool, float):
        return _make_scalar_reader(kind)
    raise TypeError(f"no reader for {kind}")


def _make_scalar_reader(kind: type) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not kind:
            raise MalformedError(f"{type(data).__name__} in the place of {kind.__name__}")
        return data

    return read


def _make_tuple_reader(item: Reader) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not list:
            raise MalformedError(f"{type(data).__name__} in the place of a list")
        return tuple([item(value) for value in data])

    return read


def _make_named_tuple_reader(kind: Any) -> Reader:
    readers = tuple(_make_reader(hint) for hint in typing.get_type_hints(kind).values())

    def read(data: Any) -> Any:
        if type(data) is not list or len(data) != len(readers):
            raise MalformedError(f"something else in the place of {kind.__name__}")
        return kind(*(item(value) for item, value in zip(readers, data, strict=True)))

    return read


def _make_dict_reader(item: Reader) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise MalformedError(f"{type(data).__name__} in the place of a mapping")
        return {name: item(value) for name, value in data.items()}

    return read


def _make_dataclass_reader(cls: type) -> Reader:
    hints = typing.get_type_hints(cls)
    init_fields = [field for field in fields(cls) if field.init]
    readers = {field.name: _make_reader(hints[field.name]) for field in init_fields}
    required = {field.name for field in init_fields if field.default is MISSING and field.default_factory is MISSING}

    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise MalformedError(f"{type(data).__name__} in the place of {cls.__name__}")
        if not required <= data.keys() <= readers.keys():
            odd = (required - data.keys()) | (data.keys() - readers.keys())
            raise MalformedError(f"{cls.__name__} with or without {', '.join(sorted(odd))}")
        try:
            return cls(**{name: readers[name](value) for name, value in data.items()})
        except MalformedError as error:
            raise MalformedError(f"{cls.__name__}.{_find_wrong_field(readers, data)}: {error}") from None

    return read


def _find_wrong_field(readers: dict[str, Reader], data: dict[str, Any]) -> str:
    """Return the name of the first field that cannot be read; used only for the text of an error."""
    for name, value in data.items():
        try:
            readers[name](value)
        except MalformedError:
            return name
    return "?"
