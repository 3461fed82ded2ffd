"""Approvals of waves by users, kept in git: `refs/fleet/waves` of the remote, never in a process.

An approval is for what the stack wants (a digest of it in all its clusters), not for a commit: another commit that
changes nothing of the stack does not void it, and one that does needs a new approval.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.evaluate.result import StackResult
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, fetch_tips, publish
from fleet.git.refs import Address
from fleet.git.repository import GitRepository
from fleet.git.status_records import clean
from fleet.objects.desired import Desired, Object
from fleet.objects.normalise import applied_hash

REF = "refs/fleet/waves"
OPTIONS = ("depends_on", "protect", "retain_on_delete", "adopt", "take_from", "ignore_changes", "aliases")
_WAVE = re.compile(r"[0-9]{1,9}")
Approvals = Mapping[tuple[str, str], frozenset[int]]  # stack and digest → waves
NO_APPROVALS: Approvals = {}


@dataclass(frozen=True, slots=True)
class WaveApproval:
    """Approval of one wave of a stack, with who gave it and when."""

    stack: str
    digest: str
    wave: int
    by: str
    at: str
    revision: str

    @property
    def line(self) -> str:
        """Return the line that is stored for this approval."""
        return f"{self.wave}\t{clean(self.by, 100)}\t{self.at}\t{self.revision}\n"


def changes_digest(stack: StackResult) -> str:
    """Return the digest of what the stack wants, cluster by cluster. Pure."""
    return stack_digest(stack.desired)


def stack_digest(wanted: Iterable[Desired]) -> str:
    """Return the digest of the objects that git wants, in whichever cluster, and of all their options."""
    digest = hashlib.sha256()
    for desired in wanted:
        for obj in desired.objects:
            text = obj.hash_with(applied_hash)
            digest.update(f"{desired.cluster}\t{obj.key}\t{text}\t{_options(obj)}\n".encode())
    return digest.hexdigest()[:32]


def _options(obj: Object) -> str:
    """Return the options that are set: what is adopted, ignored or retained is no part of the manifest."""
    options = ((name, getattr(obj, name)) for name in OPTIONS)
    return repr([(name, value) for name, value in options if value])


def approve_wave(repository: GitRepository, remote: Address | None, given: WaveApproval) -> bool:
    """Store the approval; return False if it was given already."""

    def decide(tip: Snapshot | None) -> Changes:
        path = f"{given.stack}/{given.digest}"
        lines = tip.read(path).decode(errors="replace") if tip and path in tip.files() else ""
        if given.wave in _parse_waves(lines):
            return {}
        return {path: (lines + given.line).encode()}

    message = f"{given.stack}: wave {given.wave} of {given.revision[:8]} may begin\n"
    return bool(publish(repository, remote, [Edit(REF, message, decide)]))


def read_approvals(repository: GitRepository, remote: Address | None) -> Approvals:
    """Return the approvals that the remote has; empty if there are none."""
    with fetch_tips(repository, remote, [REF]) as tips:
        tip = tips[REF]
        if tip is None:
            return {}
        texts = {path: tip.read(path).decode(errors="replace") for path in tip.files() if path.count("/") == 1}
    return {(path.partition("/")[0], path.partition("/")[2]): _parse_waves(text) for path, text in texts.items()}


def _parse_waves(text: str) -> frozenset[int]:
    """Return the approved waves of a stored text."""
    numbers = (line.partition("\t")[0] for line in text.splitlines())
    return frozenset(int(number) for number in numbers if _WAVE.fullmatch(number))
