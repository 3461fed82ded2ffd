"""The branch of records: written with compare-and-swap beside other writers, read as it is on the remote.

The newest records are kept; the branch's own history has the rest. There are three kinds, of which each has its own
number: of changes that are merged, that are proposed in the repository, and that forks propose. So a stranger who opens
pull requests takes away nothing that a merged change is applied by. A file that is no record, or not the one that its
name says, counts as missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.approval.record import ApprovalRecord, decode, encode, is_record_path
from fleet.errors import ConfigurationError, ResourceError
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, fetch_tips, publish
from fleet.git.refs import Address, branch_ref
from fleet.git.repository import GitRepository
from fleet.git.status_records import clean

MOST_RECORDS = 1000  # records of each kind at the tip
DIRECTORIES = ("trees", "forks")
MOST_BYTES = 256 * 1024 * 1024  # of all together, to read
PAGE_PATH = "README.md"
PAGE_TEXT = b"""# Approvals

Written by `fleet preview --record` and `fleet approve`, read by `fleet sync --require-approved`: what was approved, by
the tree that it leads to. Whoever can push to this branch can approve; protect it.
"""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a branch, and the errors for files that are none."""

    records: tuple[ApprovalRecord, ...] = ()
    problems: tuple[ConfigurationError, ...] = ()
    tip: str = ""  # commit of the branch that is synced; "" when there is no such branch


def write_record(
    repository: GitRepository,
    remote: Address | None,
    branch: str,
    record: ApprovalRecord,
    *,
    merged: Collection[str] = (),
) -> bool:
    """Add a record; return False when it was there already. `merged` are the trees of the branch that is synced."""
    encode(record)  # what cannot be recorded is refused before the remote is asked
    stamped = record.at()

    def decide(tip: Snapshot | None) -> Changes:
        present = _record_files(tip) if tip else {}
        if stamped.path in present or replace(stamped, fork=False).path in present:
            return {}
        changes: dict[str, bytes | None] = {stamped.path: encode(stamped), PAGE_PATH: PAGE_TEXT}
        kind = _kind(stamped.path, merged)
        same_kind = [path for path in present if _kind(path, merged) == kind]
        if tip and len(same_kind) >= MOST_RECORDS:
            changes |= dict.fromkeys(_oldest(tip, same_kind, len(same_kind) + 1 - MOST_RECORDS))
        return changes

    message = f"Approval of {record.head[:8]} {clean(record.subject, 200)}".strip() + "\n"
    return bool(publish(repository, remote, [Edit(branch_ref(branch), message, decide)]))


def read_records(repository: GitRepository, remote: Address | None, branch: str, synced: str) -> Records:
    """Return the records, and the commit that the branch which is synced ends in, as both are now."""
    ref, other = branch_ref(branch), branch_ref(synced)
    with fetch_tips(repository, remote, [ref, other]) as tips:
        records, tip = _decode_records(tips[ref]), tips[other]
    return replace(records, tip=tip.commit if tip else "")


def first_used_branch(repository: GitRepository, remote: Address | None, branches: Sequence[str]) -> str:
    """Return the first of these branches on which something was ever recorded, "" if that is none."""
    refs = {branch_ref(branch): branch for branch in branches}
    with fetch_tips(repository, remote, list(refs)) as tips:
        used = (branch for ref, branch in refs.items() if (tip := tips[ref]) and _record_files(tip))
        return next(used, "")


def _decode_records(tip: Snapshot | None) -> Records:
    records, errors = list[ApprovalRecord](), list[ConfigurationError]()
    paths = sorted(filter(is_record_path, _record_files(tip))) if tip else []
    size = 0
    for name in paths:
        assert tip is not None  # noqa: S101 - it has paths
        content = tip.read(name)
        size += len(content)
        if len(paths) > 4 * MOST_RECORDS or size > MOST_BYTES:
            raise ResourceError(
                f"{tip.ref} has more than {4 * MOST_RECORDS} records or {MOST_BYTES} bytes, which fleet does not write",
                hint="see who pushes to it; without the branch, everything has to be approved again",
            )
        try:
            records.append(decode(content, name))
        except ConfigurationError as error:
            errors.append(error)
    return Records(tuple(records), tuple(errors))


def _record_files(tip: Snapshot) -> Mapping[str, object]:
    return {path: file for directory in DIRECTORIES for path, file in tip.files(directory).items()}


def _kind(path: str, merged: Collection[str]) -> str:
    directory, tree, *_ = path.split("/")
    return "merged" if tree in merged else directory


def _oldest(tip: Snapshot, paths: Sequence[str], count: int) -> Sequence[str]:
    """Return the oldest of these files. Files that are no records go first: they count for nothing."""
    times = {record.path: record.recorded for record in _decode_records(tip).records}
    return sorted(paths, key=lambda path: (times.get(path, ""), path))[:count]
