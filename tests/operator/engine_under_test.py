"""What the tests on real nodes need of an engine: its declaration, the lab's images, and a client that counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.kit import names
from fleet.kit.app_type import AppType
from fleet.objects.resource import Resource
from fleet.testing.traffic import Traffic


def _count_nothing(carried_out: Callable[[str], None]) -> None:
    return None


def _no_changes(log: str) -> list[tuple[str, str]]:
    return []


@dataclass(frozen=True)
class EngineUnderTest:
    """One app type, with what it takes to run its apps in a lab and to find again what was written to them."""

    app_type: AppType[Any]
    traffic: Traffic
    packages: Path | None = None  # where a type of others is installed
    # Whether every member has all that was written to one: else clients of a test stay with the first.
    shares_data: bool = True
    source: str = ""  # "module:name" of itself, for processes that tests start
    secrets: tuple[str, ...] = ("connection",)  # that the operator makes for an app
    # Changes of the engine's list of members, by a member's log: "added" or "removed", each with an id.
    changes_in: Callable[[str], list[tuple[str, str]]] = _no_changes
    # Have a function called, in this process and from now on, for each command that the engine carried out.
    count_commands: Callable[[Callable[[str], None]], None] = _count_nothing

    @property
    def kind(self) -> str:
        return str(self.app_type.app.kind())

    @property
    def resource(self) -> Resource:
        return self.app_type.resource

    @property
    def name(self) -> str:
        """As recipes of images, labels and options of commands have it."""
        return self.kind.lower()

    @property
    def image(self) -> str:
        """The template of the lab's images."""
        return f"localhost/fleet-lab/{self.name}:{{series}}"

    @property
    def program(self) -> str:
        """What a member's process is called."""
        return self.app_type.roles[0].command[0]

    @property
    def port(self) -> int:
        return int(self.app_type.app.port)

    @property
    def environment(self) -> dict[str, str]:
        """Of processes that have to know the type."""
        return {**os.environ, "PYTHONPATH": str(self.packages)} if self.packages else dict(os.environ)

    @property
    def claim(self) -> str:
        """The name of the claim template that holds the data."""
        volumes = self.app_type.roles[0].volumes
        return volumes[0].name if volumes else names.DATA
