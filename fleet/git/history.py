"""Commits and what became of them.

The commits that a branch consisted of, one after the other: what was merged is part of the commit that merged it.

What became of each commit: git's history with the notes that syncs left on it.

The notes are all there is to it, so every clone tells the same, and nothing has to be kept anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fleet.errors import FleetError
from fleet.git import status
from fleet.git.publish import fetched
from fleet.git.refs import Address
from fleet.git.repository import Commit, Repository
from fleet.git.status import Outcome


@dataclass(frozen=True, slots=True)
class Past:
    """A commit that the branch once ended in. `tree` is that of the directory asked for, "" if it had none."""

    commit: str
    tree: str
    subject: str

    @property
    def title(self) -> str:
        return f"{self.commit[:8]} {self.subject}".strip()


def first_parents(repository: Repository, revision: Commit, below: str = "", *, most: int) -> tuple[Past, ...]:
    """The newest `most` of them, the oldest first."""
    listed = repository.git.run(
        f"read the history of {revision.short}",
        "rev-list", "--first-parent", f"--max-count={most}", "--no-commit-header", "--format=%H %T %s",
        "--end-of-options", revision.id,
    )  # fmt: skip
    found = [Past(*line.split(" ", 2)) for line in listed.lines]
    if below:
        with repository.objects(f"read the history of {revision.short}") as objects:
            trees = [objects.find(f"{one.tree}:{below}") for one in found]
        found = [
            Past(one.commit, tree.id if tree and tree.kind == "tree" else "", one.subject)
            for one, tree in zip(found, trees, strict=True)
        ]
    return tuple(reversed(found))


def parent(repository: Repository, commit: Commit) -> str:
    """The commit's first parent, "" when it is the first of all."""
    listed = repository.git.run(
        f"read the history of {commit.short}",
        "rev-list", "--first-parent", "--max-count=1", "--skip=1", "--end-of-options", commit.id,
    )  # fmt: skip
    return listed.text


_FORMAT = "%H%x00%ct%x00%an%x00%s%x00"
_TIME = re.compile(r"\d{1,11}")  # later than any that a date can have is no time


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit that was synced."""

    revision: str
    time: int  # of the committer, in seconds since the epoch
    author: str
    subject: str
    outcomes: tuple[Outcome, ...]
    in_history: bool = True  # of the revision that was asked about


def read_history(repository: Repository, remote: Address | None, revision: str = "HEAD") -> tuple[Entry, ...]:
    """The commits that were synced, newest first; those that are not in this history (any more) last."""
    with fetched(repository, remote, [status.REF]) as tips:
        tip = tips[status.REF]
        texts = tip.read_all() if tip else {}
    told = {path.replace("/", ""): status.parse(text.decode(errors="replace")) for path, text in texts.items()}
    told = {commit: outcomes for commit, outcomes in told.items() if outcomes}
    if not told:
        return ()
    inside = [one for one in _log(repository, revision, told) if one.revision in told]
    known = {one.revision for one in inside}
    outside = [one for commit in sorted(told.keys() - known) for one in _alone(repository, commit, told)]
    return (*inside, *sorted(outside, key=lambda one: -one.time))


def chosen(entries: Iterable[Entry], stacks: Iterable[str], clusters: Iterable[str]) -> tuple[Entry, ...]:
    """Pure: only these stacks and clusters, and the commits that were synced to them."""
    wanted, places = frozenset(stacks), frozenset(clusters)

    def fits(one: Outcome) -> bool:
        return (not wanted or one.stack in wanted) and (not places or one.cluster in places)

    narrowed = (replace(one, outcomes=tuple(filter(fits, one.outcomes))) for one in entries)
    return tuple(one for one in narrowed if one.outcomes)


def good(entries: Iterable[Entry], stack: str) -> tuple[Entry, ...]:
    """Pure: the commits of this history that were applied to the stack wherever they were tried, and it was well."""
    return tuple(
        one
        for one in chosen(entries, [stack], [])
        if one.in_history and all(each.sync == "Synced" and _is_well(each) for each in one.outcomes)
    )


def _is_well(outcome: Outcome) -> bool:
    return outcome.health in ("Healthy", "Unknown")  # an app without an operator has no health


def _log(repository: Repository, revision: str, told: Mapping[str, tuple[Outcome, ...]]) -> list[Entry]:
    commit = repository.resolve(revision).id
    listing = repository.git.run("read the history", "log", f"--format={_FORMAT}", "--no-notes", commit)
    return _entries(listing.stdout, told)


def _alone(repository: Repository, commit: str, told: Mapping[str, tuple[Outcome, ...]]) -> list[Entry]:
    try:
        said = repository.git.run(
            "read the history", "log", f"--format={_FORMAT}", "--no-notes", "--max-count=1", commit
        )
    except FleetError:  # it is not in this repository
        return []
    return [replace(one, in_history=False) for one in _entries(said.stdout, told)]


def _entries(listing: bytes, told: Mapping[str, tuple[Outcome, ...]]) -> list[Entry]:
    fields = listing.decode(errors="replace").split("\0")
    rows = zip(*(iter(fields[: len(fields) // 4 * 4]),) * 4, strict=True)
    return [
        Entry(commit.strip(), int(time) if _TIME.fullmatch(time) else 0, author, subject, told.get(commit.strip(), ()))
        for commit, time, author, subject in rows
    ]
