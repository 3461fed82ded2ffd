"""Health into git and out of it: the status branch and the notes, on the remote where there is one.

The caller decides what a failure here means: what was applied in the clusters is applied either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fleet.errors import ConfigurationError
from fleet.git import names, notes, page, status
from fleet.git.names import Address
from fleet.git.notes import Outcome
from fleet.git.publication import FLEET, Changes, Edit, Identity, Published, fetch_tips, publish, tree_of
from fleet.git.repository import Repository
from fleet.git.status import Record, Report
from fleet.git.tree import Tree

BRANCH = "fleet/status"


@dataclass(frozen=True, slots=True)
class Status:
    """What the status branch says; `commit` is None when there is no such branch."""

    records: tuple[Record, ...]
    problems: tuple[ConfigurationError, ...]
    commit: str | None


def report(
    repository: Repository,
    reports: Sequence[Report],
    *,
    removed: Sequence[tuple[str, str]] = (),
    remote: str | None = "origin",
    branch: str = BRANCH,
    identity: Identity = FLEET,
    now: datetime | None = None,
) -> Published:
    """Write what changed, as one commit on the status branch and one on the notes, in one push.

    `removed` are (stack, cluster) pairs that are no more. Nothing changed: nothing is written.
    """
    at = now or datetime.now(UTC)
    edits = [
        Edit(
            names.branch(branch), _message(reports, removed), lambda tree: _status_changes(tree, reports, removed, at)
        ),
        Edit(notes.REF, "Notes of fleet\n", lambda tree: _note_changes(tree, reports)),
    ]
    return publish(repository, destination(repository, remote), edits, identity=identity)


def read_status(repository: Repository, *, remote: str | None = "origin", branch: str = BRANCH) -> Status:
    """The status branch as it is now."""
    ref = names.branch(branch)
    tip = fetch_tips(repository, destination(repository, remote), [ref])[ref]
    records, problems = status.decode_all(_record_files(tree_of(repository, tip, ref)))
    return Status(tuple(records), tuple(problems), tip)


def read_notes(repository: Repository, commit: str, *, remote: str | None = "origin") -> tuple[Outcome, ...]:
    """What became of a revision; `commit` is a full id."""
    tip = fetch_tips(repository, destination(repository, remote), [notes.REF])[notes.REF]
    tree = tree_of(repository, tip, notes.REF)
    name = notes.path(commit, paths := _paths(tree))
    return notes.parse(tree.read(name).decode(errors="replace") if tree and name in paths else "")


def destination(repository: Repository, remote: str | None) -> Address | None:
    """The remote to report to: None (this repository's own refs) when it has no remote at all or none is wanted."""
    if remote is None:
        return None
    address = repository.remote(remote)
    if address is None and (known := repository.remotes()):
        raise ConfigurationError(
            f"this repository has no remote {remote!r}", hint=f"it has {', '.join(known)}: name one of them"
        )
    return address


def _status_changes(
    tree: Tree | None, reports: Iterable[Report], removed: Iterable[tuple[str, str]], now: datetime
) -> Changes:
    files = _record_files(tree)
    changes = status.changed_files(files, reports, removed, now)
    if not changes:
        return {}
    after = {**files, **{name: content for name, content in changes.items() if content is not None}}
    for name in [name for name, content in changes.items() if content is None]:
        del after[name]
    records, problems = status.decode_all(after)
    return {**changes, page.PATH: page.render(records, unreadable=len(problems))}


def _note_changes(tree: Tree | None, reports: Iterable[Report]) -> Changes:
    by_commit: dict[str, list[Outcome]] = {}
    for each in reports:
        if each.revision:
            by_commit.setdefault(each.revision, []).append(Outcome.of(each))
    paths, changes = _paths(tree), dict[str, bytes]()
    for commit, outcomes in by_commit.items():
        name = notes.path(commit, paths)
        before = tree.read(name).decode(errors="replace") if tree and name in paths else ""
        after = notes.merge(before, outcomes)
        if after != before:
            changes[name] = after.encode()
    return changes


def _record_files(tree: Tree | None) -> dict[str, bytes]:
    """The record files at a tip; what else people put on the branch is not read."""
    if tree is None:
        return {}
    return tree.read_all("clusters", matching=status.is_record_path)


def _paths(tree: Tree | None) -> frozenset[str]:
    return frozenset(file.path for file in tree.files()) if tree else frozenset()


def _message(reports: Sequence[Report], removed: Sequence[tuple[str, str]]) -> str:
    """The commit's message: what it is about, and of which revision."""
    names_ = sorted({each.stack for each in reports} | {stack for stack, _ in removed})
    clusters = {each.cluster for each in reports} | {cluster for _, cluster in removed}
    shown = ", ".join(names_[:5]) + (f" and {len(names_) - 5} more" if len(names_) > 5 else "")
    revisions = sorted({each.revision[:8] for each in reports if each.revision})
    of = f" at {', '.join(revisions[:3])}" if revisions else ""
    return f"Status of {shown}{of}: {len(clusters)} cluster{'s' if len(clusters) != 1 else ''}\n"
