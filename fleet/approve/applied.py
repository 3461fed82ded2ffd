"""The rules of the commits that clusters have. A commit that is not known here had one all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fleet.approve import ledger
from fleet.approve.policy import Policy, policy_at
from fleet.git.names import Address
from fleet.git.repository import Repository
from fleet.plan import Plan
from fleet.repository.settings import Approval

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
    records = ledger.used(git, remote(), [wanted.records, USUAL])
    unknown = Policy(bool(records), records or wanted.records, wanted.branch)
    return {one: rule or unknown for one, rule in found.items()}
