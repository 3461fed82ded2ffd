"""Whose object is it? One answer, from the inventory, the UID and the managers that the server recorded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from fleet.plan.inventory import Entry
from fleet.plan.owned import other_managers, owned_fields

STACK_LABEL = "fleet.dev/stack"
APP_LABEL = "fleet.dev/app"


class Whose(Enum):
    OURS = auto()
    LOST = auto()  # applied by this stack, but not (or with another UID) in the inventory
    FOREIGN = auto()  # never applied by us
    OTHER_STACK = auto()


@dataclass(frozen=True, slots=True)
class Ownership:
    whose: Whose
    owner: str  # in words, for FOREIGN and OTHER_STACK
    remade: bool = False  # the inventory knows an object of this name with another UID


OURS = Ownership(Whose.OURS, "")


def ownership(stack: str, entry: Entry | None, live: dict[str, Any]) -> Ownership:
    metadata = live["metadata"]
    if entry and entry.uid == metadata["uid"]:  # almost always
        return OURS
    applied_by_us = owned_fields(live) is not None
    label = metadata.get("labels", {}).get(STACK_LABEL, "")
    if entry and not entry.uid and applied_by_us and label in ("", stack):
        return OURS
    remade = bool(entry and entry.uid)
    if applied_by_us and label == stack:
        return Ownership(Whose.LOST, "", remade)
    if applied_by_us and label:
        return Ownership(Whose.OTHER_STACK, f"stack {label}", remade)
    return Ownership(Whose.FOREIGN, _owner(live), remade)


def keeper(live: dict[str, Any]) -> str:
    """Whoever makes it so again and again, and would go on: a controller, or the operator of an app; "" if nobody."""
    metadata = live["metadata"]
    if controller := _controller(live):
        return f"{controller}, which makes it as it wants it"
    app = (metadata.get("labels") or {}).get(APP_LABEL)
    return f"the app {app}, whose operator makes it as it wants it" if app else ""


def _controller(live: dict[str, Any]) -> str:
    references = live["metadata"].get("ownerReferences") or ()
    return next((f"{one['kind']} {one['name']}" for one in references if one.get("controller")), "")


def _owner(live: dict[str, Any]) -> str:
    """Who made it, as far as the server knows: its controller, else its field managers."""
    controller = _controller(live)
    managers = ", ".join(other_managers(live))
    if controller:
        return f"{controller} (field managers: {managers})" if managers else controller
    return f"field manager {managers}" if managers else "an unknown manager"
