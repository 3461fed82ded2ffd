"""TOML of a file that may come from an attacker: bounded before it is read, and the line of a key in it.

`tomllib` gives values without positions (and so do other readers of TOML), so a line is looked up in the text once
there is an error to report. What is looked at then was read before: it is TOML, and of bounded size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fleet.errors import ConfigurationError, Source

LARGEST = 64 * 1024
DEEPEST = 32  # dots in a line: tomllib's time, and its memory, grow with the square of a key's parts
_BARE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}=\n]"
    r"""|[^"'#\[\]{}=\n]+""",
    re.DOTALL,
)


def parse_toml(file: str, text: str) -> dict[str, Any]:
    """Return what the text of a file holds; raise ConfigurationError for what is no TOML, too large or too deep."""
    import tomllib  # noqa: PLC0415 - not needed where a line is looked up

    if len(text) > LARGEST:
        raise ConfigurationError("is larger than 64 KiB", hint="it has no reason to be", source=Source(file))
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > DEEPEST and not line.lstrip().startswith("#"):
            raise ConfigurationError(
                f"has more than {DEEPEST} dots in a line", hint="no key is that deep", source=Source(file, number)
            )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        position = re.search(r"line (\d+)", place)
        source = Source(file, int(position[1]) if position else 0)
        raise ConfigurationError(f"is not TOML: {message}", hint="see https://toml.io", source=source) from None
    except (RecursionError, ValueError):  # so Python says that a list is too deep, or a number too long
        raise ConfigurationError(
            "has a value that is too long or too deep", hint="it has no reason to be", source=Source(file)
        ) from None


def line_of(text: str, path: tuple[str, ...]) -> int:
    """Return the line where a section or a key of it begins, in a text that is TOML; 0 when it is not there.

    A key within an inline table is found at the key of that table.
    """
    table: tuple[str, ...] = ()
    for number, key, is_header in _statements(text):
        keys = _parse_key(key)
        if is_header:
            table = keys
        full = table if is_header else (*table, *keys)
        if full[: len(path)] == path or (not is_header and full == path[: len(full)]):
            return number
    return 0


def _statements(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the line, the key and whether it is a header's, of each header and each `key = value`.

    A statement ends with its line, unless a bracket or a text is open there.
    """
    line, start, depth = 1, 1, 0
    key, is_value = "", False
    position = 0
    while match := _TOKEN.match(text, position):
        part, position = match[0], match.end()
        if part == "\n" and depth <= 0:
            if key.strip().startswith("["):
                yield start, key.strip().strip("[]"), True
            line += 1
            start, depth, key, is_value = line, 0, "", False
            continue
        line += part.count("\n")
        if part == "=" and not is_value:
            is_value = True
            yield start, key, False
            key = ""
        elif is_value:
            depth += (part in "[{") - (part in "]}")
        elif not part.startswith("#"):
            key += part
    if key.strip().startswith("["):
        yield start, key.strip().strip("[]"), True


def _parse_key(key: str) -> tuple[str, ...]:
    """Return the parts of a key as TOML understands them, quotes and escapes included."""
    import tomllib  # noqa: PLC0415 - as above

    if _BARE.fullmatch(key.strip()):
        return tuple(key.strip().split("."))
    parts, value = [], tomllib.loads(f"{key.strip()} = 0")
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return tuple(parts)
