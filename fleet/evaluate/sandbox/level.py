"""How well a machine can hold code that nobody trusts, and what it takes: the rungs of a ladder, and its layers.

A   namespaces (user, pid, network, ipc, uts, mount) + Landlock + seccomp + limits
B   Landlock + seccomp + limits: where no user namespaces are to be had, as in most pods
NONE   limits alone: enough for code of one's own, never for code of others

A level is whole or it is not given: what it names is in force before the first line of user code, or none runs. On top
of any of them comes a control group, which holds all workers together, where the machine lets us have one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    A = "A"
    B = "B"
    NONE = "none"

    @property
    def confines(self) -> bool:
        """Whether the code of others may run."""
        return self is not Level.NONE


class Layer(StrEnum):
    """One defence. All that a level has are on; only the tests of the attacks leave one out, to see that it matters."""

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
    PROCESSES = "process limit"  # of a user; root is not bound by it
    GROUP = "cgroup"
    ALARM = "alarm"
    WATCHDOG = "watchdog thread"
    KEEPER = "fork server's clock"
    ENVIRONMENT = "empty environment"
    DESCRIPTORS = "closed descriptors"


OF_NAMESPACES = frozenset({Layer.NET, Layer.IPC, Layer.PID, Layer.VIEW})
OF_ZYGOTE = frozenset({Layer.NET, Layer.IPC, Layer.GROUP})  # entered once, by all workers together
_CLOCKS = frozenset({Layer.ALARM, Layer.WATCHDOG, Layer.KEEPER})
_LIMITS = frozenset({Layer.MEMORY, Layer.CPU, Layer.FILE_SIZE, Layer.OPEN_FILES, Layer.GROUP})
LAYERS = {
    Level.A: frozenset(Layer),
    Level.B: frozenset(Layer) - OF_NAMESPACES,
    Level.NONE: _LIMITS | _CLOCKS | {Layer.DESCRIPTORS},
}


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """What this machine gives, and for each higher level why not that; likewise for the control group."""

    level: Level
    why_not: dict[Level, str] = field(default_factory=dict)
    group: str = ""  # what it limits; "": there is none
    why_no_group: str = ""
    places: tuple[str, ...] = ()  # the directories of the group, for whoever removes them
    weakened: bool = False  # for the tests of the attacks

    @property
    def holds_others(self) -> bool:
        """Whether the code of others may run in it."""
        return self.level.confines and not self.weakened

    def data(self) -> dict[str, Any]:
        why_not = {level.value: why for level, why in self.why_not.items()}
        group = {"group": self.group, "why_no_group": self.why_no_group, "places": self.places}
        return {"level": self.level, "why_not": why_not, **group, "weakened": self.weakened}

    @classmethod
    def of(cls, data: dict[str, Any]) -> SandboxReport:
        why_not = {Level(level): str(why) for level, why in data["why_not"].items()}
        group = str(data["group"]), str(data["why_no_group"]), tuple(map(str, data["places"]))
        return cls(Level(data["level"]), why_not, *group, bool(data["weakened"]))


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What is asked for: the best that the machine gives, but not above `highest`.

    The rest is for the tests of the attacks: `without` some layers, or `loose`, so that each job says which to leave
    out. No setting and no variable leads here, and the code of others is refused in what was weakened like that.
    """

    highest: Level = Level.A
    without: frozenset[Layer] = frozenset()
    loose: bool = False

    @property
    def weakened(self) -> bool:
        return bool(self.without) or self.loose

    def layers(self, level: Level) -> frozenset[Layer]:
        return LAYERS[level] - self.without

    def data(self) -> dict[str, Any]:
        return {"highest": self.highest, "without": sorted(self.without), "loose": self.loose}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Sandbox:
        return cls(Level(data["highest"]), frozenset(map(Layer, data["without"])), bool(data["loose"]))


def as_bits(layers: Iterable[str]) -> int:
    """For the wire between the processes."""
    names = set(layers)
    return sum(1 << place for place, layer in enumerate(Layer) if layer in names)


def from_bits(bits: int) -> frozenset[Layer]:
    return frozenset(layer for place, layer in enumerate(Layer) if bits >> place & 1)
