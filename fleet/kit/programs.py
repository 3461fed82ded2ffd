"""Programs of an engine's own image: its client beside a member, and what a Job or an init step runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleet.model.app_settings import Resources

_SMALL = Resources(cpu="50m", memory="256Mi")


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


@dataclass(frozen=True, slots=True)
class CommandJob:
    """A program that an engine has no protocol for, as a Job of its own: `fleet.kit.decide.command` sees it through.

    It may be run again at any time, so whatever it does must be done already where it was done before.
    """

    name: str  # what it does, in names of objects: "raise-features"
    command: EngineCommand
    resources: Resources = _SMALL
    seconds: int = 600  # that it may take, with all tries
    again: float = 600.0  # seconds after which one that failed is tried again

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?", self.name):
            raise ValueError(f"{self.name!r} is no part of an object's name, of 20 letters at most")
        if not self.command.argv:
            raise ValueError(f"{self.name}: there is no program")


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How far a program is, as the next observation has it."""

    state: Literal["running", "succeeded", "failed"]
    words: str = ""  # the last ones of one that failed; what keeps one from starting
    ended: str = ""  # when
