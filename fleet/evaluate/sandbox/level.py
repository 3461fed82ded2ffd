"""The levels of isolation that a machine can give to untrusted code, and the layers that each consists of.

A   namespaces (user, pid, network, ipc, uts, mount) + Landlock + seccomp + limits
B   Landlock + seccomp + limits: where user namespaces are not available, as in most pods
NONE   limits alone: enough for the user's own code, never for other code

A level is given as a whole or not at all: all its layers are in force before the first line of user code, or no line
runs. Each level also has a control group for all workers together, where the machine allows one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """A level of isolation, A the best."""

    A = "A"
    B = "B"
    NONE = "none"

    @property
    def confines(self) -> bool:
        """Return whether code that is not the user's own may run."""
        return self is not Level.NONE


class Layer(StrEnum):
    """One defence. All layers of a level are on; only the tests of the attacks leave one out, to prove its effect."""

    NET = "network namespace"
    IPC = "ipc namespace"
    PID = "pid namespace"
    VIEW = "mount namespace"
    PRIVILEGES = "no privileges"
    LANDLOCK = "Landlock"
    SECCOMP = "seccomp"
    MEMORY = "memory limit"
    CPU = "CPU limit"
    FILE_SIZE = "file size limit"
    OPEN_FILES = "open files limit"
    PROCESSES = "process limit"  # per user; it does not bind root
    GROUP = "cgroup"
    ALARM = "alarm"
    WATCHDOG = "watchdog thread"
    KEEPER = "fork server's clock"
    ENVIRONMENT = "empty environment"
    DESCRIPTORS = "closed descriptors"


OF_NAMESPACES = frozenset({Layer.NET, Layer.IPC, Layer.PID, Layer.VIEW})
OF_ZYGOTE = frozenset({Layer.NET, Layer.IPC, Layer.GROUP})  # entered once, for all workers together
_CLOCKS = frozenset({Layer.ALARM, Layer.WATCHDOG, Layer.KEEPER})
_LIMITS = frozenset({Layer.MEMORY, Layer.CPU, Layer.FILE_SIZE, Layer.OPEN_FILES, Layer.GROUP})
LAYERS = {
    Level.A: frozenset(Layer),
    Level.B: frozenset(Layer) - OF_NAMESPACES,
    Level.NONE: _LIMITS | _CLOCKS | {Layer.DESCRIPTORS},
}


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """The level that this machine gives, with the reason against each higher one; likewise for the control group."""

    level: Level
    why_not: dict[Level, str] = field(default_factory=dict)
    group: str = ""  # what the control group limits; "" if there is none
    why_no_group: str = ""
    places: tuple[str, ...] = ()  # directories of the group, for the parent, which removes them
    weakened: bool = False  # whether a test of the attacks left layers out

    @property
    def holds_others(self) -> bool:
        """Return whether code that is not the user's own may run in it."""
        return self.level.confines and not self.weakened

    def data(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        why_not = {level.value: why for level, why in self.why_not.items()}
        group = {"group": self.group, "why_no_group": self.why_no_group, "places": self.places}
        return {"level": self.level, "why_not": why_not, **group, "weakened": self.weakened}

    @classmethod
    def of(cls, data: dict[str, Any]) -> SandboxReport:
        """Return the report from its JSON data."""
        why_not = {Level(level): str(why) for level, why in data["why_not"].items()}
        group = str(data["group"]), str(data["why_no_group"]), tuple(map(str, data["places"]))
        return cls(Level(data["level"]), why_not, *group, bool(data["weakened"]))


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox that a caller asks for: the best that the machine gives, but not above `highest`.

    The other fields are for the tests of the attacks: `without` names layers to leave out, and `loose` lets each job
    name them. No setting and no variable sets them, and a weakened sandbox never runs code that is not the user's own.
    """

    highest: Level = Level.A
    without: frozenset[Layer] = frozenset()
    loose: bool = False

    @property
    def is_weakened(self) -> bool:
        """Return whether a layer is or may be left out."""
        return bool(self.without) or self.loose

    def layers(self, level: Level) -> frozenset[Layer]:
        """Return the layers that are on at a level."""
        return LAYERS[level] - self.without

    def data(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        return {"highest": self.highest, "without": sorted(self.without), "loose": self.loose}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Sandbox:
        """Return the request from its JSON data."""
        return cls(Level(data["highest"]), frozenset(map(Layer, data["without"])), bool(data["loose"]))


def as_bits(layers: Iterable[str]) -> int:
    """Return layers as bits, for the frames between the processes."""
    names = set(layers)
    return sum(1 << place for place, layer in enumerate(Layer) if layer in names)


def from_bits(bits: int) -> frozenset[Layer]:
    """Return the layers that bits stand for."""
    return frozenset(layer for place, layer in enumerate(Layer) if bits >> place & 1)
