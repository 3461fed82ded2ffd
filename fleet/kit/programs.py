"""Programs of an engine's own image: its client beside a member, and what a Job or an init step runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Client:
    """An engine's own client as it runs inside a member's pod, where its program and the app's certificates are.

    `argv` connects to the member that it runs beside, whose pod is {pod} in it; what a person wants comes after.

    `environment` is for programs elsewhere in the cluster, with the connection Secret's files in {directory}.
    """

    container: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        return self.argv[0]


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A program that a Job or an init step runs, with its arguments as they are. There is no shell: images of engines
    need not have one.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # Secrets of the app, and the directory of each
