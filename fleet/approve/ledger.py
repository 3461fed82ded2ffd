"""The branch with the records: written with compare-and-swap beside others who record, read as it is on the remote.

The newest records are kept; the branch's own history has the rest. A file that is no record, or not the one that its
name says, counts as not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleet.approve.record import Record, decode, encode, is_record_path
from fleet.errors import ConfigurationError, ResourceError
from fleet.git import names
from fleet.git.names import Address
from fleet.git.objects import Snapshot
from fleet.git.publication import Changes, Edit, fetched, publish
from fleet.git.repository import Repository
from fleet.git.status import clean

MOST = 1000  # records at the tip
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


def write(repository: Repository, remote: Address | None, branch: str, record: Record) -> bool:
    """Add a record; False when it was there already."""
    encode(record)  # what cannot be recorded is said before anybody is asked
    stamped = record.at()

    def decide(tip: Snapshot | None) -> Changes:
        there = tip.files("trees") if tip else {}
        if stamped.path in there:
            return {}
        changes: dict[str, bytes | None] = {stamped.path: encode(stamped), PAGE: ABOUT}
        if tip and len(there) >= MOST:
            changes |= dict.fromkeys(_oldest(tip, len(there) + 1 - MOST))
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
        found = (branch for ref, branch in refs.items() if (tip := tips[ref]) and tip.files("trees"))
        return next(found, "")


def _decoded(tip: Snapshot | None) -> Records:
    records, problems = list[Record](), list[ConfigurationError]()
    paths = sorted(filter(is_record_path, tip.files("trees"))) if tip else []
    size = 0
    for name in paths:
        assert tip is not None  # noqa: S101 - it has paths
        content = tip.read(name)
        size += len(content)
        if len(paths) > 2 * MOST or size > MOST_BYTES:
            raise ResourceError(
                f"{tip.ref} has more than {2 * MOST} records or {MOST_BYTES} bytes, which fleet does not write",
                hint="see who pushes to it; without the branch, everything has to be approved again",
            )
        try:
            records.append(decode(content, name))
        except ConfigurationError as problem:
            problems.append(problem)
    return Records(tuple(records), tuple(problems))


def _oldest(tip: Snapshot, count: int) -> Sequence[str]:
    """Files that are no records go first: nobody counts them."""
    known = {one.path: one.recorded for one in _decoded(tip).records}
    return sorted(tip.files("trees"), key=lambda path: (known.get(path, ""), path))[:count]
