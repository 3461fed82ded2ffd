"""The states of health, and the small questions that all judges ask."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleet.text import quote_output


class State(StrEnum):
    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"  # on its way, as far as can be seen
    DEGRADED = "Degraded"  # something is wrong; it may recover
    SUSPENDED = "Suspended"  # somebody wants it to rest
    MISSING = "Missing"
    UNKNOWN = "Unknown"  # nobody has said anything about it yet

    @property
    def is_settled(self) -> bool:
        """There is nothing to wait for."""
        return self in (State.HEALTHY, State.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Health:
    state: State
    message: str = ""
    final: bool = False  # its controller gave up: a Job that failed, a rollout that took too long

    @property
    def is_settled(self) -> bool:
        return self.final or self.state.is_settled

    def __str__(self) -> str:
        return f"{self.state}: {self.message}" if self.message else str(self.state)


def waiting_message(waiting: dict[str, Any]) -> str:
    """Return what kubelet says of a container that waits, with what its hooks printed marked as output; "" if nothing.

    Of a hook that failed, kubelet repeats the command and what it printed: both may have secrets.
    """
    message = str(waiting.get("message") or "")
    is_of_hook = str(waiting.get("reason", "")).endswith("HookError")
    return quote_output(message) if message and is_of_hook else message


def healthy(message: str = "") -> Health:
    return Health(State.HEALTHY, message)


def progressing(message: str) -> Health:
    return Health(State.PROGRESSING, message)


def degraded(message: str, *, final: bool = False) -> Health:
    return Health(State.DEGRADED, message, final)


def suspended(message: str) -> Health:
    return Health(State.SUSPENDED, message)


def status_of(found: dict[str, Any]) -> dict[str, Any]:
    status = found.get("status")
    return status if isinstance(status, dict) else {}


def conditions_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    conditions = status_of(found).get("conditions")
    return [one for one in conditions if isinstance(one, dict)] if isinstance(conditions, list) else []


def condition(found: dict[str, Any], kind: str) -> dict[str, Any] | None:
    return next((one for one in conditions_of(found) if one.get("type") == kind), None)


def strange(found: dict[str, Any]) -> Health | None:
    """A status that is none by any convention says nothing: definitions without a schema let everything through."""
    status = found.get("status")
    if status is None:
        return None
    if not isinstance(status, dict):
        return Health(State.UNKNOWN, "its status is no object")
    conditions = status_of(found).get("conditions")
    if conditions is not None and not isinstance(conditions, list):
        return Health(State.UNKNOWN, "its conditions are no list")
    if len(conditions_of(found)) != len(conditions or ()):
        return Health(State.UNKNOWN, "its conditions are not all objects")
    return None


def holds(found: dict[str, Any], kind: str) -> bool:
    one = condition(found, kind)
    return one is not None and one.get("status") == "True"


def said(one: dict[str, Any] | None) -> str:
    """A condition's words: the message, else the reason."""
    return str((one or {}).get("message") or (one or {}).get("reason") or "")


def not_observed(found: dict[str, Any]) -> Health | None:
    """Its controller has not looked at the present spec yet: what the status says is about an older one."""
    seen = status_of(found).get("observedGeneration")
    generation = found["metadata"].get("generation")
    if generation is not None and (seen is None or seen < generation):
        return progressing("waiting for its controller to see the change")
    return None
