"""How well a machine can hold code that nobody trusts, and what it takes: the rungs of a ladder, and its layers.

A   namespaces (user, pid, network, ipc, uts, mount) + Landlock + seccomp + limits
B   Landlock + seccomp + limits: where no user namespaces are to be had, as in most pods
NONE   limits alone: enough for code of one's own, never for code of others

A level is whole or it is not given: what it names is in force before the first line of user code, or none runs.
"""

from __future__ import annotations

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
    RLIMITS = "rlimits"
    ENVIRONMENT = "empty environment"
    DESCRIPTORS = "closed descriptors"


OF_NAMESPACES = frozenset({Layer.NET, Layer.IPC, Layer.PID, Layer.VIEW})
LAYERS = {
    Level.A: frozenset(Layer),
    Level.B: frozenset(Layer) - OF_NAMESPACES,
    Level.NONE: frozenset({Layer.RLIMITS, Layer.DESCRIPTORS}),
}


@dataclass(frozen=True, slots=True)
class Given:
    """What this machine gives, and for each higher level why not that."""

    level: Level
    why_not: dict[Level, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        return {"level": self.level, "why_not": {level.value: why for level, why in self.why_not.items()}}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Given:
        return cls(Level(data["level"]), {Level(level): str(why) for level, why in data["why_not"].items()})


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What is asked for: the best that the machine gives, but not above `highest`, and `without` some layers."""

    highest: Level = Level.A
    without: frozenset[Layer] = frozenset()

    def layers(self, level: Level) -> frozenset[Layer]:
        return LAYERS[level] - self.without

    def data(self) -> dict[str, Any]:
        return {"highest": self.highest, "without": sorted(self.without)}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Sandbox:
        return cls(Level(data["highest"]), frozenset(map(Layer, data["without"])))
