"""What was found of an app that others set up: its StatefulSets by role. It lies in the ledger from when it is taken
over, and data hangs on it.

An engine that has to know more of its members keeps a layout of its own, with the same names in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FoundSet:
    """One StatefulSet that others made, as far as the app's declaration knows its parts."""

    stateful_set: str
    container: str  # the engine's
    claim: str = ""  # the claim template that holds the data; "" if the role keeps none
    port: int = 0  # for clients, in the pod
    service: str = ""  # the headless one, by which members have names; "" if there is none
    baseline: Mapping[str, Any] = field(default_factory=dict)  # what git said of it when it was taken over


@dataclass(frozen=True, slots=True)
class FoundLayout:
    """All StatefulSets of one app, by role; "" is the first role."""

    sets: Mapping[str, FoundSet] = field(default_factory=dict)


def write_layout(layout: FoundLayout) -> dict[str, Any]:
    """Return what the ledger holds of a layout."""
    return asdict(layout)


def read_layout(data: Mapping[str, Any]) -> FoundLayout:
    """Return the layout that `write_layout` wrote."""
    return FoundLayout({role: FoundSet(**found) for role, found in data["sets"].items()})
