"""Values that settings of fleet.toml take. Pure, and light: every command reads settings.

A `Value` says once what a setting accepts: how a value of TOML is read, and its JSON schema, with which editors check
the same before fleet does. `setting` declares a field of a section with it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Generic, TypeVar, cast

from fleet.repository.requirement import PATTERN, parse_requirement
from fleet.times import UNITS, parse_duration

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class InvalidError(ValueError):
    """A value that a field does not take; the message, after the field's name, says what it takes."""


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """A kind of values. `read` raises InvalidError; the schema may let through what only `read` can judge."""

    read: Callable[[object], T]
    schema: Callable[[], Mapping[str, Any]]  # called where a schema is written


def setting(value: Value[T], default: object = "") -> T:
    """Declare a field of a section. The default is written as in fleet.toml; "" is "not set" for every value."""
    read: object = value.read(default) if default != "" else ""
    return cast("T", dataclasses.field(default=read, metadata={"value": value, "default": default}))


def choose_from(choices: type[E]) -> Value[E]:
    """Return the value that is one of an enumeration."""

    def read(value: object) -> E:
        return choices(_check_choice(value, [str(choice) for choice in choices]))

    return Value(read, lambda: {"enum": [str(choice) for choice in choices]})


def choose_name(names: Iterable[str]) -> Value[str]:
    """Return the value that is one of these names."""
    return Value(lambda value: _check_choice(value, list(names)), lambda: {"enum": list(names)})


def _check_choice(value: object, names: list[str]) -> str:
    if not isinstance(value, str) or value not in names:
        quoted = [f'"{name}"' for name in names]
        raise InvalidError("is " + " or ".join(part for part in (", ".join(quoted[:-1]), quoted[-1]) if part))
    return value


def _text_like(pattern: str, longest: int = 0) -> Callable[[], Mapping[str, Any]]:
    length = {"maxLength": longest} if longest else {}
    return lambda: {"type": "string", "pattern": f"^(?:{pattern})$", **length}


_SHARE = re.compile(r"(100(?:\.0{1,9})?|0?\d{1,2}(?:\.\d{1,9})?) ?%")
_ACCOUNT = re.compile(r"(?:[a-z0-9-]|\{stack\})+/(?:[a-z0-9.-]|\{stack\})+")
_REF = re.compile(r"(?![-./])(?!.*(?:\.\.|//|@\{|\.lock$|\.lock/|/\.|[/.]$))[^\x00-\x20~^:?*\[\\\x7f]+")
_HTTP = r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[\w.~-]+)*/?"
_URL = re.compile(_HTTP)
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)+")
LONGEST_NAME = 250


def check_directory(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidError('is a directory of the repository, such as "stacks"')
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or str(path) == ".":
        raise InvalidError('is a directory below the repository\'s root, such as "stacks"')
    return str(path)


def check_file(value: object) -> str:
    try:
        return check_directory(value)
    except InvalidError:
        raise InvalidError('is a file of the repository, such as "stacks/requirements.lock"') from None


def check_fleet_name(value: object) -> str:
    """Return a name that can be typed after a flag: the default, an address, must be a valid one too."""
    fits = isinstance(value, str) and value.isprintable() and 0 < len(value) <= LONGEST_NAME
    if not isinstance(value, str) or not fits or value != value.strip() or value.startswith("-"):
        raise InvalidError('is a name that no other fleet has, such as "shop" or "example.com/team/fleet"')
    return value


def check_ref(value: object) -> str:
    if not isinstance(value, str) or not _REF.fullmatch(value):
        raise InvalidError('is a name that git accepts, such as "main"')
    return value


def check_account(value: object) -> str:
    if not isinstance(value, str) or not _ACCOUNT.fullmatch(value):
        raise InvalidError('is a service account, "namespace/name", such as "tenants/{stack}"')
    return value


def _check_url(value: object) -> str:
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise InvalidError('is the address of a forge, such as "https://git.example.com", without a user or a password')
    return value.rstrip("/")


def _check_path_on_forge(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value) or ".." in value:
        raise InvalidError('is a path on the forge, such as "team/fleet"')
    return value


_BELOW_ROOT = r"(?!/)(?!(?:.*/)?\.\.(?:/|$))(?!(?:\.(?:/+|$))+$).+"
DIRECTORY = Value(check_directory, _text_like(_BELOW_ROOT))
FILE_PATH = Value(check_file, _text_like(_BELOW_ROOT))
UNIQUE_NAME = Value(check_fleet_name, _text_like(r"(?![-\s])(?!.*\s$).+", LONGEST_NAME))
REF = Value(check_ref, _text_like(_REF.pattern))
ACCOUNT = Value(check_account, _text_like(_ACCOUNT.pattern))
FORGE_URL = Value(_check_url, _text_like(_HTTP))
FORGE_PATH = Value(_check_path_on_forge, _text_like(rf"(?!.*\.\.){_PATH.pattern}"))

MOST_REQUIREMENTS = 100


def _check_requirements(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_REQUIREMENTS:
        raise InvalidError('is a list of packages with their versions, such as ["fleet-nats==1.2.*"]')
    read = [parse_requirement(item) if isinstance(item, str) and len(item) <= LONGEST_NAME else None for item in value]
    if None in read:
        raise InvalidError('names packages with their versions, such as "fleet-nats==1.2.*" or "fleet-nats>=1.2,<2"')
    return tuple(requirement.text for requirement in read if requirement)


REQUIREMENTS = Value(
    _check_requirements,
    lambda: {
        "type": "array",
        "maxItems": MOST_REQUIREMENTS,
        "items": {"type": "string", "pattern": rf"^\s*{PATTERN}\s*$", "maxLength": LONGEST_NAME},
    },
)

_SIZE = re.compile(r"(\d{1,15})(Ki|Mi|Gi)?")
_BYTES = {None: 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
MOST_COUNT, LONGEST_TIME, LARGEST_SIZE = 1_000_000, 86_400.0, 1024**4  # what clocks and kernels can still work with


def _check_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_COUNT:
        raise InvalidError(f"is a whole number, 0 or more and {MOST_COUNT} at most")
    return value


def _check_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidError("is true or false")
    return value


def _parse_share(value: object) -> float:
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise InvalidError('is a share, such as "10%"')
    return float(match[1]) / 100


def _parse_duration(value: object) -> float:
    try:
        seconds = parse_duration(value) if isinstance(value, str) else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIME:
        raise InvalidError('is a duration above zero and of a day at most, such as "30s" or "2m"')
    return seconds


def _parse_size(value: object) -> int:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    number = int(match[1]) * _BYTES[match[2]] if match else 0
    if not 0 < number <= LARGEST_SIZE:
        raise InvalidError('is a size above zero and of 1024Gi at most, such as "512Mi" or "1Gi"')
    return number


COUNT = Value(_check_count, lambda: {"type": "integer", "minimum": 0, "maximum": MOST_COUNT})
FLAG = Value(_check_flag, lambda: {"type": "boolean"})
SHARE = Value(_parse_share, _text_like(_SHARE.pattern))
DURATION = Value(_parse_duration, _text_like(r"(?=\d)" + "".join(rf"(?:\d+(?:\.\d+)?{unit})?" for unit in UNITS)))
SIZE = Value(_parse_size, _text_like(_SIZE.pattern))
