"""Field paths as people write them: `spec.replicas`, `metadata.labels[a.b/c]`, `spec.containers[name=db].image`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fleet.errors import ConfigurationError

PART = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
PLAIN = re.compile(r"^[A-Za-z0-9_$-]+$")


@dataclass(frozen=True, slots=True)
class Segment:
    """One step down: a key of a map, a position in a list, or the item of a list whose `key` has the value."""

    key: str
    value: str | None = None  # of [key=value]
    bracketed: bool = False

    def selects(self, position: int, item: Any) -> bool:
        """Whether it means this item of a list."""
        if self.key == "*":
            return True
        if self.value is not None:
            return isinstance(item, dict) and str(item.get(self.key)) == self.value
        return self.key == str(position)


def parse(path: str) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    position = 0
    while position < len(path):
        match = PART.match(path, position)
        if not match or match.end() == match.start():
            raise ConfigurationError(
                f"{path!r} is not a field path", hint="write it as spec.replicas or spec.containers[name=db].image"
            )
        word, inside = match.groups()
        if word is not None:
            segments.append(Segment(word))
        else:
            text = inside.strip("\"'")
            key, equals, value = text.partition("=")
            quoted = text != inside
            segments.append(Segment(key, value, True) if equals and not quoted else Segment(text, None, True))
        position = match.end()
    if not segments:
        raise ConfigurationError("an empty field path", hint="write it as spec.replicas")
    return tuple(segments)


def child(path: str, key: str) -> str:
    if not PLAIN.match(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def item(path: str, keys: dict[str, Any]) -> str:
    return f"{path}[{','.join(f'{name}={value}' for name, value in keys.items())}]"
