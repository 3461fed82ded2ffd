"""A program of an engine's own image that a Job or an init step runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A program with its arguments as they are. There is no shell: images of engines need not have one."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # Secrets of the app, and the directory of each
