"""What is particular about each kind of service, as data and a few functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleet.lab.controlplane import Program
from fleet.lab.services.record import Record


@dataclass(frozen=True, slots=True)
class Service:
    """A kind of service. `programs` is the directory that `build` returns."""

    name: str
    title: str
    port: int
    health: str  # a path that answers with 200 when it serves
    build: Callable[[], Path]
    credentials: Callable[[], tuple[str, str]]  # of the administrator: user and secret
    program: Callable[[Record, Path], Program]
    complete: Callable[[Record, Path], None]  # what is done once it serves; may be done again
    scheme: str  # https where clients would not send their secrets otherwise
    environment: Callable[[Record], dict[str, str]]  # what clients read, its administrator's secret included
