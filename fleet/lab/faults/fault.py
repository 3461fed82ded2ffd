"""Faults as data, the kinds of faults, and what a fault can happen to.

A `Fault` says what shall be wrong, an `ActiveFault` what is wrong now. A `Kind` says how a fault begins and ends; what
users say to get one is its verb (`verb.py`). Targets are written as at the command line:

    pod/web-0             a pod of the namespace that the user gave, or pod/shop/web-0
    volume/data-web-0     the volume of a claim, as pods
    node/lab-node-1       a node
    kube-apiserver        a program of the control plane
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fleet.errors import ConfigurationError
from fleet.lab.programs.process import Identity, parse_identity

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

Owner = Identity


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that shall be. Targets are written as at the command line: `pod/default/web-0`, `node/lab-node-1`."""

    kind: str
    cluster: str
    targets: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # plain JSON; what they mean is the kind's matter

    def __str__(self) -> str:
        """Return one line for people, without options that are empty or zero."""
        options = [f"{name}={_format_value(value)}" for name, value in self.options.items() if value]
        return " ".join([self.kind, *self.targets, *options])


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that was made and not yet undone."""

    id: int
    fault: Fault
    facts: Mapping[str, Any]  # what its kind found out before it began
    since: float
    owner: Owner | None = None
    until: float | None = None

    def is_over(self, now: float, alive: Callable[[Owner], bool]) -> bool:
        """Return whether its time is up or its owner gone."""
        return (self.until is not None and now >= self.until) or (self.owner is not None and not alive(self.owner))

    @property
    def is_watched(self) -> bool:
        """Return whether it ends by itself, so that the guardian has to wait for that."""
        return self.owner is not None or self.until is not None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ActiveFault:
        fault = dict(data["fault"])
        owner = data["owner"]
        return cls(
            id=data["id"],
            fault=Fault(**{**fault, "targets": tuple(fault["targets"])}),
            facts=data["facts"],
            since=data["since"],
            owner=parse_identity(owner) if owner else None,
            until=data["until"],
        )


def _format_value(value: object) -> str:
    return ",".join(str(part) for part in value) if isinstance(value, list | tuple) else str(value)


Facts = dict[str, Any]  # plain JSON


class Kind(ABC):
    """A way in which something in a lab can be wrong."""

    lasts: ClassVar[bool] = True  # or it happens once: it ends as soon as it has begun, and nothing is undone

    @abstractmethod
    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        """Find what the fault happens to, and return the facts; refuse what cannot be. Changes nothing."""

    @abstractmethod
    def begin(self, lab: Lab, active: ActiveFault) -> None:
        """Make the fault."""

    def end(self, lab: Lab, active: ActiveFault) -> None:
        """Undo the fault, as often as it is called, however much of it is left; from its facts alone."""
        return

    def settle(self, lab: Lab, active: ActiveFault) -> None:
        """Wait until what was undone works again.

        It is called when all faults are undone that are to be: one may need another.
        """
        return

    def renew(self, lab: Lab, active: ActiveFault, node: str) -> None:
        """Make the fault again on a node that came back, if the node lost it with its namespaces."""
        return


Thing = Literal["pod", "volume", "node", "program"]
PROGRAMS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "coredns", "provisioner")
HINT = f"write pod/NAME, pod/NAMESPACE/NAME, volume/CLAIM, node/NAME, or one of {', '.join(PROGRAMS)}"


@dataclass(frozen=True, slots=True)
class Target:
    """A thing that a fault can happen to."""

    thing: Thing
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        if self.thing == "program":
            return self.name
        return "/".join(part for part in (self.thing, self.namespace, self.name) if part)


def parse_target(text: str, namespace: str = "default") -> Target:
    """Return the target that a text means; a target written as text means the same in every namespace.

    Raises ConfigurationError if it means none.
    """
    if text in PROGRAMS:
        return Target("program", text)
    thing, *rest = text.split("/")
    match (thing, rest):
        case ("node", [name]) if name:
            return Target("node", name)
        case ("pod" | "volume", [name]) if name:
            return Target(thing, name, namespace)
        case ("pod" | "volume", [own_namespace, name]) if own_namespace and name:
            return Target(thing, name, own_namespace)
    raise ConfigurationError(f"{text!r} is nothing that a fault can happen to", hint=HINT)


def expect_target(text: str, namespace: str, verb: str, *things: Thing) -> Target:
    """Return the target that a text means; raise ConfigurationError if the verb makes no sense for it."""
    target = parse_target(text, namespace)
    if target.thing not in things:
        kinds = " or a ".join(things)
        raise ConfigurationError(f"{text} is a {target.thing}; {verb} is for a {kinds}", hint=HINT)
    return target
