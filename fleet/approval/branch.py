"""The branch with the records: written with compare-and-swap beside others who record, read as it is on the remote.

The newest records are kept; the branch's own history has the rest. There are three kinds, of which each has its own
number: of changes that are merged, that are proposed in the repository, and that forks propose. So a stranger who opens
pull requests takes away nothing that a merged change is applied by. A file that is no record, or not the one that its
name says, counts as not there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.approval.record import Record, decode, encode, is_record_path
from fleet.errors import ConfigurationError, ResourceError
from fleet.git import refs as names
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, fetched, publish
from fleet.git.refs import Address
from fleet.git.repository import Repository
from fleet.git.status_records import clean

MOST = 1000  # records of each kind at the tip
DIRECTORIES = ("trees", "forks")
MOST_BYTES = 256 * 1024 * 1024  # of all together, to read
PAGE = "README.md"
ABOUT = b"""# Approvals

Written by `fleet preview --record` and `fleet approve`, read by `fleet sync --require-approved`: what was approved, by
the tree that it leads to. Whoever can push to this branch can approve; protect it.
"""


@dataclass(frozen=True, slots=True)
class Records:
    records: tuple[Record, ...] = ()
    problems: tuple[ConfigurationError, ...] = ()
    tip: str = ""  # "" when there is no such branch


def write(
    repository: Repository, remote: Address | None, branch: str, record: Record, *, merged: Collection[str] = ()
) -> bool:
    """Add a record; False when it was there already. `merged` are the trees of the branch that is synced."""
    encode(record)  # what cannot be recorded is said before anybody is asked
    stamped = record.at()

    def decide(tip: Snapshot | None) -> Changes:
        there = _files(tip) if tip else {}
        if stamped.path in there or replace(stamped, fork=False).path in there:
            return {}
        changes: dict[str, bytes | None] = {stamped.path: encode(stamped), PAGE: ABOUT}
        kind = _kind(stamped.path, merged)
        fellows = [path for path in there if _kind(path, merged) == kind]
        if tip and len(fellows) >= MOST:
            changes |= dict.fromkeys(_oldest(tip, fellows, len(fellows) + 1 - MOST))
        return changes

    message = f"Approval of {record.head[:8]} {clean(record.subject, 200)}".strip() + "\n"
    return bool(publish(repository, remote, [Edit(names.branch(branch), message, decide)]))


def read(repository: Repository, remote: Address | None, branch: str, synced: str) -> Records:
    """The records, and the commit that the branch which is synced ends in, as both are now."""
    ref, other = names.branch(branch), names.branch(synced)
    with fetched(repository, remote, [ref, other]) as tips:
        found, tip = _decoded(tips[ref]), tips[other]
    return replace(found, tip=tip.commit if tip else "")


def used(repository: Repository, remote: Address | None, branches: Sequence[str]) -> str:
    """The first of these branches on which something was ever recorded, "" if that is none."""
    refs = {names.branch(branch): branch for branch in branches}
    with fetched(repository, remote, list(refs)) as tips:
        found = (branch for ref, branch in refs.items() if (tip := tips[ref]) and _files(tip))
        return next(found, "")


def _decoded(tip: Snapshot | None) -> Records:
    records, problems = list[Record](), list[ConfigurationError]()
    paths = sorted(filter(is_record_path, _files(tip))) if tip else []
    size = 0
    for name in paths:
        assert tip is not None  # noqa: S101 - it has paths
        content = tip.read(name)
        size += len(content)
        if len(paths) > 4 * MOST or size > MOST_BYTES:
            raise ResourceError(
                f"{tip.ref} has more than {4 * MOST} records or {MOST_BYTES} bytes, which fleet does not write",
                hint="see who pushes to it; without the branch, everything has to be approved again",
            )
        try:
            records.append(decode(content, name))
        except ConfigurationError as problem:
            problems.append(problem)
    return Records(tuple(records), tuple(problems))


def _files(tip: Snapshot) -> Mapping[str, object]:
    return {path: file for directory in DIRECTORIES for path, file in tip.files(directory).items()}


def _kind(path: str, merged: Collection[str]) -> str:
    directory, tree, *_ = path.split("/")
    return "merged" if tree in merged else directory


def _oldest(tip: Snapshot, paths: Sequence[str], count: int) -> Sequence[str]:
    """Files that are no records go first: nobody counts them."""
    known = {one.path: one.recorded for one in _decoded(tip).records}
    return sorted(paths, key=lambda path: (known.get(path, ""), path))[:count]
