"""The rule itself, in fleet.toml, is something that must not change unseen.

A commit that nobody approved could switch it off, and the next one would be free. So the rule that holds is the one of
what a cluster has now, and leaving it is a change like any other: recorded by previews, and refused without a record.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fleet.approve.state import ABSENT
from fleet.errors import FleetError
from fleet.git.objects import Objects
from fleet.model.desired import Key
from fleet.repository.read import FILE, read_settings
from fleet.repository.settings import Settings

PAIR = ("", "")  # no stack has this name, and no cluster
KEY = Key("", FILE, "", "approval")


@dataclass(frozen=True, slots=True)
class Policy:
    required: bool
    records: str  # the branch that has them
    branch: str  # to which what is approved is merged

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        return cls(settings.approval.required, settings.approval.branch, settings.git.branch)

    @property
    def state(self) -> str:
        """Where approval is not required there is nothing to keep to."""
        told = f"required for {self.branch}, recorded on {self.records}"
        return hashlib.sha256(told.encode()).hexdigest() if self.required else ABSENT

    def __str__(self) -> str:
        return f"required on {self.branch}, recorded on {self.records}" if self.required else "not required"


def policy_at(objects: Objects, place: str, below: str) -> Policy | None:
    """The rule of a commit or a tree; None where that is not known here, or its settings cannot be read."""
    found = objects.find(f"{place}:{f'{below}/' if below else ''}{FILE}")
    if found is None or found.kind != "blob":
        return None
    try:
        return Policy.of(read_settings(found.content.decode(errors="replace")))
    except FleetError:
        return None
