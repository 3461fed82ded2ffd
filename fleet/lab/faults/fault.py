"""A fault as data: what shall be wrong, and what is wrong now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fleet.lab.process import Identity, known

Owner = Identity


@dataclass(frozen=True, slots=True)
class Fault:
    """What shall be wrong. Targets are written as at the command line: `pod/default/web-0`, `node/lab-node-1`."""

    kind: str
    cluster: str
    targets: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # plain JSON; what they mean is the kind's matter

    def __str__(self) -> str:
        """One line for people; what is empty or zero is not worth a word."""
        options = [f"{name}={_shown(value)}" for name, value in self.options.items() if value]
        return " ".join([self.kind, *self.targets, *options])


@dataclass(frozen=True, slots=True)
class Active:
    """A fault that was made and not yet undone."""

    id: int
    fault: Fault
    facts: Mapping[str, Any]  # what its kind found out before it began
    since: float
    owner: Owner | None = None
    until: float | None = None

    def is_over(self, now: float, alive: Callable[[Owner], bool]) -> bool:
        """Whether its time is up or its owner gone."""
        return (self.until is not None and now >= self.until) or (self.owner is not None and not alive(self.owner))

    @property
    def is_watched(self) -> bool:
        """Whether it ends by itself, so that somebody has to wait for that."""
        return self.owner is not None or self.until is not None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Active:
        fault = dict(data["fault"])
        owner = data["owner"]
        return cls(
            id=data["id"],
            fault=Fault(**{**fault, "targets": tuple(fault["targets"])}),
            facts=data["facts"],
            since=data["since"],
            owner=known(owner) if owner else None,
            until=data["until"],
        )


def _shown(value: object) -> str:
    return ",".join(str(part) for part in value) if isinstance(value, list | tuple) else str(value)
