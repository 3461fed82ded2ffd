"""States of health, and the helpers that all judges use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """A state of health."""

    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"  # on its way, as far as the status shows
    DEGRADED = "Degraded"  # something is wrong; it may recover
    SUSPENDED = "Suspended"  # at rest because a user wants that
    MISSING = "Missing"
    UNKNOWN = "Unknown"  # no controller has reported on it yet

    @property
    def is_settled(self) -> bool:
        """Return whether there is nothing to wait for."""
        return self in (State.HEALTHY, State.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one object: its state, and the reason in words."""

    state: State
    message: str = ""
    final: bool = False  # its controller gave up: a Job that failed, a rollout that took too long

    @property
    def is_settled(self) -> bool:
        """Return whether there is nothing to wait for, because all is well or its controller gave up."""
        return self.final or self.state.is_settled

    def __str__(self) -> str:
        return f"{self.state}: {self.message}" if self.message else str(self.state)


def healthy(message: str = "") -> Health:
    return Health(State.HEALTHY, message)


def progressing(message: str) -> Health:
    return Health(State.PROGRESSING, message)


def degraded(message: str, *, final: bool = False) -> Health:
    return Health(State.DEGRADED, message, final)


def suspended(message: str) -> Health:
    return Health(State.SUSPENDED, message)


def status_of(live: dict[str, Any]) -> dict[str, Any]:
    """Return an object's status; an empty one if it has none or it is no object."""
    status = live.get("status")
    return status if isinstance(status, dict) else {}


def conditions_of(live: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions in an object's status that have the right shape."""
    conditions = status_of(live).get("conditions")
    return [item for item in conditions if isinstance(item, dict)] if isinstance(conditions, list) else []


def condition(live: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """Return an object's condition of this type; None if it has none."""
    return next((item for item in conditions_of(live) if item.get("type") == kind), None)


def judge_shape(live: dict[str, Any]) -> Health | None:
    """Return the health Unknown if a status has a shape that no convention knows; else None.

    Definitions without a schema let such a status through, and it says nothing.
    """
    status = live.get("status")
    if status is None:
        return None
    if not isinstance(status, dict):
        return Health(State.UNKNOWN, "its status is no object")
    conditions = status_of(live).get("conditions")
    if conditions is not None and not isinstance(conditions, list):
        return Health(State.UNKNOWN, "its conditions are no list")
    if len(conditions_of(live)) != len(conditions or ()):
        return Health(State.UNKNOWN, "its conditions are not all objects")
    return None


def has_condition(live: dict[str, Any], kind: str) -> bool:
    """Return whether the condition of this type is True."""
    current = condition(live, kind)
    return current is not None and current.get("status") == "True"


def condition_message(item: dict[str, Any] | None) -> str:
    """Return a condition's message, else its reason."""
    return str((item or {}).get("message") or (item or {}).get("reason") or "")


def judge_observation(live: dict[str, Any]) -> Health | None:
    """Return the health Progressing if the status is about an older spec; else None.

    The controller has not seen the present spec yet.
    """
    observed = status_of(live).get("observedGeneration")
    generation = live["metadata"].get("generation")
    if generation is not None and (observed is None or observed < generation):
        return progressing("waiting for its controller to see the change")
    return None
