"""Validation of what users write: pydantic's errors in their words, and checks for plain data. Plain data is what JSON
can hold; everything that leaves a user's code is made of it.

An error says which field, what is wrong with it, and what would be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from fleet.errors import ConfigurationError, Source
from fleet.suggestion import suggestion

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_TYPES = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "True or False",
    "dict_type": "a dict",
    "mapping_type": "a dict",
    "list_type": "a list",
    "tuple_type": "a list",
    "sequence_type": "a list",
    "is_instance_of": "{class}",
    "model_type": "{class_name}",
    "model_attributes_type": "{class_name}",
    "dataclass_type": "{class_name}",
}
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}, not {input}",
    "greater_than": "must be more than {gt}, not {input}",
    "less_than_equal": "must be at most {le}, not {input}",
    "less_than": "must be less than {lt}, not {input}",
    "too_short": "needs at least {min_length} items, has {actual_length}",
    "too_long": "takes at most {max_length} items, has {actual_length}",
    "string_too_long": "is longer than {max_length} characters",
    "string_too_short": "is shorter than {min_length} characters",
    "literal_error": "must be {expected}, not {input}",
}


_BRANCHES = frozenset({"str", "int", "float", "bool"})  # with names of classes: pydantic's names for parts of a union


def invalid_value(message: str, hint: str | None = None, field: str = "") -> PydanticCustomError:
    """Return an error for a validator to raise: a message that continues the field's name, and what would be right.

    A validator of a whole model names the `field` that is to be changed.
    """
    return PydanticCustomError("fleet", "{message}", {"message": message, "hint": hint, "field": field})


def configuration_error(
    error: ValidationError, *, title: str, source: Source, fields: Callable[[tuple[str | int, ...]], Mapping[str, str]]
) -> ConfigurationError:
    """Return one error for all that is wrong with a call; `fields` tells the known fields (and their hints) at a
    location.
    """
    descriptions = [
        _describe_detail(detail, title, fields) for detail in _distinct_details(error.errors(include_url=False))
    ]
    field, message, hint = descriptions[0]
    for other, further, remedy in descriptions[1:]:
        message += f"\n  also {other}: {further}" + (f" ({remedy})" if remedy else "")
    return ConfigurationError(message, hint=hint, source=source, field=field)


def _distinct_details(details: Iterable[ErrorDetails]) -> list[ErrorDetails]:
    """Return one detail for each value. A value that fits no branch of a union gives one detail per branch: the first
    says enough.
    """
    distinct: dict[tuple[int, str], ErrorDetails] = {}
    for detail in details:
        distinct.setdefault((id(detail["input"]), str(detail["loc"][:1])), detail)
    return list(distinct.values())


def _describe_detail(
    detail: ErrorDetails, title: str, fields: Callable[[tuple[str | int, ...]], Mapping[str, str]]
) -> tuple[str, str, str | None]:
    kind, location, context = detail["type"], detail["loc"], detail.get("ctx", {})
    name = _location_path(location) or title
    if kind == "fleet":
        name = _location_path((*location, context["field"])) if context.get("field") else name
        return name, str(context["message"]), context.get("hint")
    if kind == "missing":
        return name, f"is required by {title}", fields(location[:-1]).get(str(location[-1]))
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        unknown = str(location[-1])
        owner = ".".join([title, *(str(part) for part in location[:-1])])
        return name, f"{owner} has no field {unknown!r}", suggestion(unknown, fields(location[:-1]))
    if kind in _TYPES:
        wanted = _TYPES[kind].format_map(_Context(context))
        hint = fields(location[:-1]).get(str(location[-1])) if location else None
        if kind == "string_type" and isinstance(detail["input"], int | float):
            hint = f"put it in quotes: '{detail['input']}'"
        return name, f"must be {wanted}, not {_display_value(detail['input'])}", hint
    if kind in _BOUNDS:
        return name, _BOUNDS[kind].format_map(_Context(context, input=_display_value(detail["input"]))), None
    if kind in ("value_error", "assertion_error"):  # of a validator in a user's own app type
        return name, str(context.get("error", detail["msg"])), None
    return name, detail["msg"][:1].lower() + detail["msg"][1:], None


class _Context(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "a value of the right type"


def _location_path(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in _BRANCHES and not part[:1].isupper() and "[" not in part and "(" not in part:
            text += f".{part}" if text else part
    return text


def _display_value(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"


_LARGEST = 2**63


def check_plain(value: Any, path: str = "") -> None:
    """Raise an error for anything that JSON (and the API server) cannot hold, naming where in the value it is."""
    where = f"{path}: " if path else ""
    if value is None or isinstance(value, str | bool):
        return
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise invalid_value(f"{where}{value} does not fit into 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise invalid_value(f"{where}{value} is not a number that JSON has")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_plain(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise invalid_value(
                    f"{where}key {key!r} is {type(key).__name__}, not a string", f"quote it: {str(key)!r}"
                )
            check_plain(item, f"{path}.{key}" if path else key)
    else:
        kind = type(value).__name__
        raise invalid_value(
            f"{where}{kind} is not plain data", "strings, numbers, True and False, None, lists and dicts are"
        )


def copy_plain(value: Any) -> Any:
    """Return a copy of plain data that shares nothing with it; subclasses of str, int and so on become
    what they are.
    """
    if isinstance(value, dict):
        return {str(key): copy_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    return value
