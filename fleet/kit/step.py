"""What a pass has decided: steps as data, and in which state the app is. Engines decide, `execute` carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.errors import ResourceError

Object = dict[str, Any]


class NotYetError(ResourceError):
    """The engine asks for patience: it is not ready for this step, and nothing is wrong."""


class State(StrEnum):
    """Of the whole app, the worst that holds."""

    OK = "ok"
    PROGRESSING = "progressing"  # on its way, and nothing is wrong
    DEGRADED = "degraded"  # it serves, with something missing; it is being mended, or mends itself
    BLOCKED = "blocked"  # nothing more happens until a person does something
    UNCERTAIN = "uncertain"  # not enough is known to act


@dataclass(frozen=True, slots=True)
class Apply:
    """Make an object so; it is created only if nobody has one of that name."""

    manifest: Object
    reason: str = ""  # of the event; "" is not worth one
    note: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the very object that was looked at."""

    object: Object
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """A request to the engine, by the name that its driver knows; it must be idempotent."""

    what: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Revert:
    """Give a StatefulSet the template back that its members had before, and hold every pod where it is."""

    stateful_set: Object
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Take:
    """Take over the very object that was looked at: our fields are added to it, by force only where `take_from` says
    whose are taken away. Without a manifest, others only give up theirs."""

    object: Object
    manifest: Object | None
    take_from: tuple[str, ...] = ()
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Annotate:
    """Set annotations of the app's own resource, as a person may who asks the operator for something."""

    annotations: Mapping[str, str]
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Write the status of the very object that was looked at: an answer to the person who made it."""

    object: Object
    status: Mapping[str, Any]
    reason: str = ""
    note: str = ""


Step = Apply | Delete | Act | Revert | Take | Annotate | SetStatus


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is one word for programs, `message` a sentence for people. `after`: look again in so many seconds."""

    state: State
    reason: str
    message: str
    steps: tuple[Step, ...] = ()
    after: float = 10.0


def step(state: State, reason: str, message: str, *steps: Step, after: float = 0.2) -> Decision:
    return Decision(state, reason, message, steps, after)


def wait(state: State, reason: str, message: str, after: float = 1.0) -> Decision:
    return Decision(state, reason, message, (), after)


def blocked(reason: str, message: str, after: float = 15.0) -> Decision:
    return Decision(State.BLOCKED, reason, message, (), after)
