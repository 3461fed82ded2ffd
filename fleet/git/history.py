"""Commits of a branch, and what became of each.

What was merged is part of the commit that merged it: histories follow first parents. What became of a commit is in the
notes that syncs left on it. The notes are all there is to it, so every clone reads the same, and nothing has to be kept
anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fleet.errors import FleetError
from fleet.git import status
from fleet.git.publish import fetch_tips
from fleet.git.refs import Address
from fleet.git.repository import GitCommit, GitRepository
from fleet.git.status import PublishOutcome


@dataclass(frozen=True, slots=True)
class PastCommit:
    """A commit that was once the tip of the branch.

    `tree` is that of the directory asked for, "" if it had none.
    """

    commit: str
    tree: str
    subject: str

    @property
    def title(self) -> str:
        return f"{self.commit[:8]} {self.subject}".strip()


def first_parents(
    repository: GitRepository, revision: GitCommit, below: str = "", *, most: int
) -> tuple[PastCommit, ...]:
    """Return the newest `most` commits of the branch, the oldest first."""
    listing = repository.git.run(
        f"read the history of {revision.short}",
        "rev-list", "--first-parent", f"--max-count={most}", "--no-commit-header", "--format=%H %T %s",
        "--end-of-options", revision.id,
    )  # fmt: skip
    commits = [PastCommit(*line.split(" ", 2)) for line in listing.lines]
    if below:
        with repository.objects(f"read the history of {revision.short}") as objects:
            trees = [objects.find(f"{commit.tree}:{below}") for commit in commits]
        commits = [
            PastCommit(commit.commit, tree.id if tree and tree.kind == "tree" else "", commit.subject)
            for commit, tree in zip(commits, trees, strict=True)
        ]
    return tuple(reversed(commits))


def first_parent(repository: GitRepository, commit: GitCommit) -> str:
    """Return the id of the commit's first parent, "" when the commit has none."""
    listing = repository.git.run(
        f"read the history of {commit.short}",
        "rev-list", "--first-parent", "--max-count=1", "--skip=1", "--end-of-options", commit.id,
    )  # fmt: skip
    return listing.text


_FORMAT = "%H%x00%ct%x00%an%x00%s%x00"
_TIME = re.compile(r"\d{1,11}")  # later than any that a date can have is no time


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One commit that was synced."""

    revision: str
    time: int  # of the committer, in seconds since the epoch
    author: str
    subject: str
    outcomes: tuple[PublishOutcome, ...]
    in_history: bool = True  # of the revision that was asked about


def read_history(repository: GitRepository, remote: Address | None, revision: str = "HEAD") -> tuple[HistoryEntry, ...]:
    """Return the commits that were synced, newest first; those that are not, or no longer, in this history last."""
    with fetch_tips(repository, remote, [status.NOTES_REF]) as tips:
        tip = tips[status.NOTES_REF]
        texts = tip.read_all() if tip else {}
    outcomes_by_commit = {
        path.replace("/", ""): status.parse_note(text.decode(errors="replace")) for path, text in texts.items()
    }
    outcomes_by_commit = {commit: outcomes for commit, outcomes in outcomes_by_commit.items() if outcomes}
    if not outcomes_by_commit:
        return ()
    inside = [entry for entry in _log(repository, revision, outcomes_by_commit) if entry.revision in outcomes_by_commit]
    inside_ids = {entry.revision for entry in inside}
    outside = [
        entry
        for commit in sorted(outcomes_by_commit.keys() - inside_ids)
        for entry in _read_entry(repository, commit, outcomes_by_commit)
    ]
    return (*inside, *sorted(outside, key=lambda entry: -entry.time))


def select_entries(
    entries: Iterable[HistoryEntry], stacks: Iterable[str], clusters: Iterable[str]
) -> tuple[HistoryEntry, ...]:
    """Keep only the outcomes of these stacks and clusters, and the commits that were synced to them. Pure."""
    stack_names, cluster_names = frozenset(stacks), frozenset(clusters)

    def fits(outcome: PublishOutcome) -> bool:
        return (not stack_names or outcome.stack in stack_names) and (
            not cluster_names or outcome.cluster in cluster_names
        )

    selected = (replace(entry, outcomes=tuple(filter(fits, entry.outcomes))) for entry in entries)
    return tuple(entry for entry in selected if entry.outcomes)


def good_entries(entries: Iterable[HistoryEntry], stack: str) -> tuple[HistoryEntry, ...]:
    """Return the commits of this history at which every outcome of the stack was synced and healthy. Pure."""
    return tuple(
        entry
        for entry in select_entries(entries, [stack], [])
        if entry.in_history and all(outcome.sync == "Synced" and _is_well(outcome) for outcome in entry.outcomes)
    )


def _is_well(outcome: PublishOutcome) -> bool:
    return outcome.health in ("Healthy", "Unknown")  # an app without an operator has no health


def _log(
    repository: GitRepository, revision: str, outcomes: Mapping[str, tuple[PublishOutcome, ...]]
) -> list[HistoryEntry]:
    commit = repository.resolve(revision).id
    listing = repository.git.run("read the history", "log", f"--format={_FORMAT}", "--no-notes", commit)
    return _entries(listing.stdout, outcomes)


def _read_entry(
    repository: GitRepository, commit: str, outcomes: Mapping[str, tuple[PublishOutcome, ...]]
) -> list[HistoryEntry]:
    try:
        listing = repository.git.run(
            "read the history", "log", f"--format={_FORMAT}", "--no-notes", "--max-count=1", commit
        )
    except FleetError:  # it is not in this repository
        return []
    return [replace(entry, in_history=False) for entry in _entries(listing.stdout, outcomes)]


def _entries(listing: bytes, outcomes: Mapping[str, tuple[PublishOutcome, ...]]) -> list[HistoryEntry]:
    fields = listing.decode(errors="replace").split("\0")
    rows = zip(*(iter(fields[: len(fields) // 4 * 4]),) * 4, strict=True)
    return [
        HistoryEntry(
            commit.strip(), int(time) if _TIME.fullmatch(time) else 0, author, subject, outcomes.get(commit.strip(), ())
        )
        for commit, time, author, subject in rows
    ]
