"""The approval rule and who set it.

The rule itself, in fleet.toml, is something that must not change unseen.

A commit that nobody approved could switch it off, and the next one would be free. So the rule that holds is the one of
what a cluster has now, and leaving it is a change like any other: recorded by previews, and refused without a record.

The rules of the commits that clusters have. A commit that is not known here had one all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleet.approval import branch
from fleet.approval.record import ABSENT
from fleet.errors import FleetError
from fleet.git.objects import Objects
from fleet.git.refs import Address
from fleet.git.repository import Repository
from fleet.objects.desired import Key
from fleet.plan import Plan
from fleet.repository.settings import FILE, Approval, Settings, read_settings

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


USUAL = Approval().branch


def revisions(plans: Iterable[Plan]) -> set[str]:
    """The commits of everything that this repository has in the clusters of these plans."""
    return {one for plan in plans for one in (plan.inventory.revision, *plan.applied)} - {""}


def rules(
    git: Repository, remote: Callable[[], Address | None], commits: Iterable[str], below: str, wanted: Policy
) -> dict[str, Policy]:
    """By commit. Where one cannot be read, approval was required if anything was ever approved here.

    Only then is the remote asked for: most syncs need none for this.
    """
    with git.objects("read the rules of what is applied") as objects:
        found = {one: policy_at(objects, one, below) for one in sorted(commits)}
    if all(found.values()):
        return {one: rule for one, rule in found.items() if rule}
    records = branch.used(git, remote(), [wanted.records, USUAL])
    unknown = Policy(bool(records), records or wanted.records, wanted.branch)
    return {one: rule or unknown for one, rule in found.items()}
