"""A person's word that a wave may begin, kept in git: `refs/fleet/waves` of the remote, never in a process.

It is given for what the stack wants (a digest of it in all its clusters), not for a commit: another commit that changes
nothing of the stack does not void it, and one that does needs a new word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.evaluate.result import StackResult
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, fetch_tips, publish
from fleet.git.refs import Address
from fleet.git.repository import Repository
from fleet.git.status_records import clean
from fleet.objects.desired import Desired, Object
from fleet.objects.normalise import applied_hash

REF = "refs/fleet/waves"
OPTIONS = ("depends_on", "protect", "retain_on_delete", "adopt", "take_from", "ignore_changes", "aliases")
Approvals = Mapping[tuple[str, str], frozenset[int]]  # stack and digest → waves


@dataclass(frozen=True, slots=True)
class WaveApproval:
    stack: str
    digest: str
    wave: int
    by: str
    at: str
    revision: str

    @property
    def line(self) -> str:
        return f"{self.wave}\t{clean(self.by, 100)}\t{self.at}\t{self.revision}\n"


def changes_digest(stack: StackResult) -> str:
    """Of what the stack wants, cluster by cluster. Pure."""
    return stack_digest(stack.desired)


def stack_digest(wanted: Iterable[Desired]) -> str:
    """Of the objects that are wanted, wherever they are, with all that their options say about them."""
    found = hashlib.sha256()
    for desired in wanted:
        for one in desired.objects:
            text = one.hash_with(applied_hash)
            found.update(f"{desired.cluster}\t{one.key}\t{text}\t{_options(one)}\n".encode())
    return found.hexdigest()[:32]


def _options(one: Object) -> str:
    """Those that are set: what is taken over, left alone, or may be deleted later is no part of the manifest."""
    said = ((name, getattr(one, name)) for name in OPTIONS)
    return repr([(name, value) for name, value in said if value])


def approve_wave(repository: Repository, remote: Address | None, given: WaveApproval) -> bool:
    """Write it; False when that word was given already."""

    def decide(tip: Snapshot | None) -> Changes:
        path = f"{given.stack}/{given.digest}"
        before = tip.read(path).decode(errors="replace") if tip and path in tip.files() else ""
        if given.wave in _waves(before):
            return {}
        return {path: (before + given.line).encode()}

    message = f"{given.stack}: wave {given.wave} of {given.revision[:8]} may begin\n"
    return bool(publish(repository, remote, [Edit(REF, message, decide)]))


def read_approvals(repository: Repository, remote: Address | None) -> Approvals:
    with fetch_tips(repository, remote, [REF]) as tips:
        tip = tips[REF]
        if tip is None:
            return {}
        texts = {path: tip.read(path).decode(errors="replace") for path in tip.files() if path.count("/") == 1}
    return {(path.partition("/")[0], path.partition("/")[2]): _waves(text) for path, text in texts.items()}


def _waves(text: str) -> frozenset[int]:
    first = (line.partition("\t")[0] for line in text.splitlines())
    return frozenset(int(one) for one in first if one.isdigit())
