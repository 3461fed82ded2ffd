"""A commit that a program proposes: made on top of another one without a checkout, and given a branch.

As with the status branch, nothing of the person's index, working tree or branches is touched; a branch that is there
already is moved only if it is still where it was seen.
"""

from __future__ import annotations

from pathlib import Path

from fleet.errors import ConflictError, FleetError
from fleet.git import names
from fleet.git.command import Git
from fleet.git.names import Address
from fleet.git.publication import FLEET, Changes, Edit, Identity, committed, fetched, swapped
from fleet.git.repository import Repository


def tip_of(repository: Repository, remote: Address | None, branch: str) -> str | None:
    """The commit that a branch has now, on the remote if there is one; None when there is no such branch."""
    ref = names.branch(branch)
    with fetched(repository, remote, [ref]) as tips:
        tip = tips[ref]
        return tip.commit if tip else None


def propose(repository: Repository, base: str, changes: Changes, message: str, *, identity: Identity = FLEET) -> str:
    """A commit on `base` with these changes, that nothing points at yet; its id."""
    found = repository.resolve(base)
    made = committed(
        repository,
        "make the commit",
        tip=found.id,
        before=found.tree,
        changes=changes,
        message=message,
        who=identity,
    )
    return made or found.id


def give_branch(repository: Repository, remote: Address | None, commit: str, branch: str, *, seen: str | None) -> None:
    """Let a branch be at the commit: a new one, or one that is still at `seen`."""
    ref = names.branch(branch)
    verdict = swapped(repository, remote, Edit(ref, "", lambda _: {}), seen, commit)
    if isinstance(verdict, FleetError):
        raise verdict
    if verdict == "lost":
        what = "was changed by somebody else meanwhile" if seen else "is there already"
        raise ConflictError(f"the branch {branch} {what}", hint="try again, or name another one with --branch")


def who(directory: Path) -> Identity:
    """The person whose git this is, as git would say in a commit; fleet itself where git knows nobody."""
    found = Git(directory).person()
    return Identity(*found) if found else FLEET
