"""The note on a source commit: what became of that revision, one line per stack and cluster. Pure.

    orders eu-1: Synced, Healthy [2026-11-16T14:00:00Z ada@laptop]
    orders us-1: Failed, Unknown [2026-11-16T14:00:00Z ada@laptop] - the cluster cannot be reached

`git log --notes=fleet` shows it. In brackets is since when it is so, and who applied it. Lines of other writers, and
other people's words, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleet.git.status import HEALTH, SYNC, Report, clean

REF = "refs/notes/fleet"
_LINE = re.compile(
    rf"(?P<stack>\S+) (?P<cluster>\S+): (?P<sync>{'|'.join(SYNC)}), (?P<health>{'|'.join(HEALTH)})"
    r"(?: \[(?P<at>\S+) (?P<by>[^\]]+)\])?(?: - (?P<message>.+))?"
)


@dataclass(frozen=True, slots=True, order=True)
class Outcome:
    stack: str
    cluster: str
    sync: str
    health: str
    message: str = ""
    at: str = ""  # since when it is so
    by: str = ""  # who applied it; "" in notes of earlier releases

    @classmethod
    def of(cls, report: Report, *, at: str = "", by: str = "") -> Outcome:
        who = clean(by.replace("]", " "), 60)
        sync = report.sync if report.sync in SYNC else "Failed"
        health = report.health if report.health in HEALTH else "Unknown"
        return cls(report.stack, report.cluster, sync, health, clean(report.message), at if who else "", who)

    def __str__(self) -> str:
        reason = f" - {self.message}" if self.message else ""
        when = f" [{self.at} {self.by}]" if self.at and self.by else ""
        return f"{self.stack} {self.cluster}: {self.sync}, {self.health}{when}{reason}"

    def following(self, before: Outcome | None) -> Outcome:
        """It is so since it first was: a later look at the same thing moves nothing."""
        told = (self.sync, self.health, self.message)
        if before and before.at and told == (before.sync, before.health, before.message):
            return replace(self, at=before.at, by=before.by)
        return self


def merge(note: str, outcomes: Iterable[Outcome]) -> str:
    """The note with our outcomes in place of older ones for the same stack and cluster."""
    others, known = [], {}
    for line in note.split("\n"):
        outcome = _parse(line)
        if outcome:
            known[outcome.stack, outcome.cluster] = outcome
        elif line.strip():
            others.append(line)
    for outcome in outcomes:
        pair = (outcome.stack, outcome.cluster)
        known[pair] = outcome.following(known.get(pair))
    return "".join(f"{line}\n" for line in [*others, *map(str, sorted(known.values()))])


def parse(note: str) -> tuple[Outcome, ...]:
    """The outcomes that a note holds."""
    return tuple(outcome for outcome in map(_parse, note.split("\n")) if outcome)


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
    said, when = clean(found["message"] or ""), (found["at"] or "", found["by"] or "")
    return Outcome(found["stack"], found["cluster"], found["sync"], found["health"], said, *when)
