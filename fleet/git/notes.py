"""The note on a source commit: what became of that revision, one line per stack and cluster. Pure.

    orders eu-1: Synced, Healthy
    orders us-1: Failed, Unknown - the cluster cannot be reached

`git log --notes=fleet` shows it. Lines of other writers, and other people's words, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.git.status import HEALTH, SYNC, Report, clean

REF = "refs/notes/fleet"
_LINE = re.compile(
    rf"(?P<stack>\S+) (?P<cluster>\S+): (?P<sync>{'|'.join(SYNC)}), (?P<health>{'|'.join(HEALTH)})"
    r"(?: - (?P<message>.+))?"
)


@dataclass(frozen=True, slots=True, order=True)
class Outcome:
    stack: str
    cluster: str
    sync: str
    health: str
    message: str = ""

    @classmethod
    def of(cls, report: Report) -> Outcome:
        sync = report.sync if report.sync in SYNC else "Failed"
        health = report.health if report.health in HEALTH else "Unknown"
        return cls(report.stack, report.cluster, sync, health, clean(report.message))

    def __str__(self) -> str:
        reason = f" - {self.message}" if self.message else ""
        return f"{self.stack} {self.cluster}: {self.sync}, {self.health}{reason}"


def merge(note: str, outcomes: Iterable[Outcome]) -> str:
    """The note with our outcomes in place of older ones for the same stack and cluster."""
    others, known = [], {}
    for line in note.splitlines():
        outcome = _parse(line)
        if outcome:
            known[outcome.stack, outcome.cluster] = outcome
        elif line.strip():
            others.append(line)
    known |= {(outcome.stack, outcome.cluster): outcome for outcome in outcomes}
    return "".join(f"{line}\n" for line in [*others, *map(str, sorted(known.values()))])


def parse(note: str) -> tuple[Outcome, ...]:
    """The outcomes that a note holds."""
    return tuple(outcome for outcome in map(_parse, note.splitlines()) if outcome)


def path(commit: str, paths: Iterable[str]) -> str:
    """Where the note on `commit` is or belongs: git spreads notes over directories when there are many."""
    existing = list(paths)
    for name in existing:
        if name.replace("/", "") == commit:
            return name
    return f"{commit[:2]}/{commit[2:]}" if len(existing) >= 256 else commit


def _parse(line: str) -> Outcome | None:
    match = _LINE.fullmatch(line)
    if not match:
        return None
    found = match.groupdict()
    return Outcome(found["stack"], found["cluster"], found["sync"], found["health"], clean(found["message"] or ""))
