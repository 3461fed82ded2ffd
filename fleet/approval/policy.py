"""The approval rule in fleet.toml, which must not change unseen, and the rules of the commits that clusters have.

A commit that was not approved could switch it off, and the next one would be free. So the rule that holds is the one of
what a cluster has now, and leaving it is a change like any other: recorded by previews, and refused without a record.
A commit that this clone does not have had a rule all the same.
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
from fleet.git.repository import GitRepository
from fleet.objects.desired import Key
from fleet.plan import Plan
from fleet.repository.settings import FILE, Approval, Settings, read_settings

POLICY_PLACEMENT = ("", "")  # no stack has this name, and no cluster
POLICY_KEY = Key("", FILE, "", "approval")


@dataclass(frozen=True, slots=True)
class Policy:
    """The approval rule of one commit."""

    required: bool
    records: str  # the branch that has them
    branch: str  # to which approved changes are merged

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        return cls(settings.approval.required, settings.approval.branch, settings.git.branch)

    @property
    def state(self) -> str:
        """Return the rule as one text. Where approval is not required there is nothing to keep to."""
        text = f"required for {self.branch}, recorded on {self.records}"
        return hashlib.sha256(text.encode()).hexdigest() if self.required else ABSENT

    def __str__(self) -> str:
        return f"required on {self.branch}, recorded on {self.records}" if self.required else "not required"


def read_policy(objects: Objects, commit_or_tree: str, below: str) -> Policy | None:
    """Return the rule of a commit or a tree; None where it is not in this clone, or its settings cannot be read."""
    settings_file = objects.find(f"{commit_or_tree}:{f'{below}/' if below else ''}{FILE}")
    if settings_file is None or settings_file.kind != "blob":
        return None
    try:
        return Policy.of(read_settings(settings_file.content.decode(errors="replace")))
    except FleetError:
        return None


DEFAULT_RECORDS_BRANCH = Approval().branch


def applied_revisions(plans: Iterable[Plan]) -> set[str]:
    """Return the commits of everything that this repository has in the clusters of these plans."""
    return {revision for plan in plans for revision in (plan.inventory.revision, *plan.applied)} - {""}


def read_policies(
    git: GitRepository, remote: Callable[[], Address | None], commits: Iterable[str], below: str, wanted: Policy
) -> dict[str, Policy]:
    """Return the rule of each commit. Where one cannot be read, approval was required if anything was ever approved.

    Only then is the remote asked for: most syncs need none for this.
    """
    with git.objects("read the rules of what is applied") as objects:
        policies = {commit: read_policy(objects, commit, below) for commit in sorted(commits)}
    if all(policies.values()):
        return {commit: rule for commit, rule in policies.items() if rule}
    records = branch.first_used_branch(git, remote(), [wanted.records, DEFAULT_RECORDS_BRANCH])
    unknown = Policy(bool(records), records or wanted.records, wanted.branch)
    return {commit: rule or unknown for commit, rule in policies.items()}
