"""Health into git and out of it: the status branch and the notes, on the remote where there is one.

The caller decides what a failure here means: what was applied in the clusters is applied either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fleet.errors import ConfigurationError
from fleet.git import names, notes, status
from fleet.git.names import Address
from fleet.git.notes import Outcome
from fleet.git.objects import Snapshot
from fleet.git.publication import FLEET, Changes, Edit, Identity, Published, fetched, publish
from fleet.git.repository import Repository
from fleet.git.status import Record, Report
from fleet.model.desired import StackCluster
from fleet.printable import count_noun

BRANCH = "fleet/status"
Gone = Callable[[Iterable[StackCluster]], Iterable[StackCluster]]


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
    removed: Sequence[StackCluster] = (),
    gone: Gone = lambda known: (),
    remote: str | Address | None = "origin",
    branch: str = BRANCH,
    identity: Identity = FLEET,
    by: str = "",
    now: datetime | None = None,
) -> Published:
    """Write what changed, as one commit on the status branch and one on the notes, in one push.

    `by` is who applied it, for the notes. `removed` are (stack, cluster) pairs that are no more, `gone` says which of
    those that the branch knows are no more. Nothing changed: nothing is written.
    """
    at = now or datetime.now(UTC)
    edits = [
        Edit(
            names.branch(branch),
            _message(reports, removed),
            lambda files: _status_changes(files, reports, removed, gone, at),
        ),
        Edit(notes.REF, "Notes of fleet\n", lambda files: _note_changes(files, reports, status.timestamp(at), by)),
    ]
    return publish(repository, destination(repository, remote), edits, identity=identity)


def read_status(repository: Repository, *, remote: str | Address | None = "origin", branch: str = BRANCH) -> Status:
    """The status branch as it is now."""
    ref = names.branch(branch)
    with fetched(repository, destination(repository, remote), [ref]) as tips:
        records, problems = status.decode_all(_record_files(tips[ref]))
    tip = tips[ref]
    return Status(tuple(records), tuple(problems), tip.commit if tip else None)


def read_pairs(
    repository: Repository, remote: Address | None, *, branch: str = BRANCH, fresh: bool = True
) -> frozenset[StackCluster] | None:
    """Of which stacks and clusters the status branch speaks; None when there is no such branch."""
    ref = names.branch(branch)
    with fetched(repository, remote, [ref], fresh=fresh) as tips:
        tip = tips[ref]
        return frozenset(map(status.pair, filter(status.is_record_path, tip.files("clusters")))) if tip else None


def read_notes(repository: Repository, commit: str, *, remote: str | None = "origin") -> tuple[Outcome, ...]:
    """What became of a revision; `commit` is a full id."""
    with fetched(repository, destination(repository, remote), [notes.REF]) as tips:
        return notes.parse(_note(tips[notes.REF], commit)[1])


def destination(repository: Repository, remote: str | Address | None) -> Address | None:
    """The remote to report to: None (this repository's own refs) when it has no remote at all or none is wanted."""
    return chosen(repository.remotes(), remote) if isinstance(remote, str) else remote


def chosen(remotes: Mapping[str, str], name: str) -> Address | None:
    """The one of that name; ConfigurationError when there are others only."""
    if name in remotes:
        return names.address(remotes[name], by_person=True)
    if remotes:
        raise ConfigurationError(
            f"this repository has no remote {name!r}", hint=f"it has {', '.join(remotes)}: name one of them"
        )
    return None


def _status_changes(
    tip: Snapshot | None, reports: Iterable[Report], removed: Iterable[StackCluster], gone: Gone, now: datetime
) -> Changes:
    files = _record_files(tip)
    known = {status.pair(name): name for name in files}
    no_more = [pair for pair in gone(known) if status.is_readable(files[known[pair]], known[pair])]
    changes = status.changed_files(files, reports, [*removed, *no_more], now)
    if not changes:
        return {}
    from fleet.git import page  # noqa: PLC0415 - only when there is something to show

    after = {**files, **{name: content for name, content in changes.items() if content is not None}}
    for name in [name for name, content in changes.items() if content is None]:
        del after[name]
    records, problems = status.decode_all(after)
    return {**changes, page.PATH: page.render(records, unreadable=len(problems))}


def _note_changes(tip: Snapshot | None, reports: Iterable[Report], at: str, by: str) -> Changes:
    by_commit: dict[str, list[Outcome]] = {}
    for each in reports:
        if each.revision:
            by_commit.setdefault(each.revision, []).append(Outcome.of(each, at=at, by=by))
    changes: dict[str, bytes] = {}
    for commit, outcomes in by_commit.items():
        name, before = _note(tip, commit)
        after = notes.merge(before, outcomes)
        if after != before:
            changes[name] = after.encode()
    return changes


def _record_files(tip: Snapshot | None) -> dict[str, bytes]:
    """The record files at a tip; what else people put on the branch is not read."""
    return tip.read_all("clusters", matching=status.is_record_path) if tip else {}


def _note(tip: Snapshot | None, commit: str) -> tuple[str, str]:
    """Where the note on a commit is or belongs, and what it says."""
    paths = tip.files() if tip else {}
    name = notes.path(commit, paths)
    return name, tip.read(name).decode(errors="replace") if tip and name in paths else ""


def _message(reports: Sequence[Report], removed: Sequence[tuple[str, str]]) -> str:
    """The commit's message: what it is about, and of which revision."""
    names_ = sorted({each.stack for each in reports} | {stack for stack, _ in removed})
    clusters = {each.cluster for each in reports} | {cluster for _, cluster in removed}
    shown = ", ".join(names_[:5]) + (f" and {len(names_) - 5} more" if len(names_) > 5 else "")
    revisions = sorted({each.revision[:8] for each in reports if each.revision})
    of = f" at {', '.join(revisions[:3])}" if revisions else ""
    return f"Status of {shown}{of}: {count_noun(len(clusters), 'cluster')}\n"
