"""The status branch, its page, and the notes on source commits: health into git and out of it.

What `fleet.git.status_records` writes becomes one commit on the status branch, one on the notes and one push, to the
remote where there is one. The caller decides what a failure here means: what was applied in the clusters is applied
either way.

The page is README.md at the root of the branch, which every forge shows. It is a function of the record files alone, so
that two writers that have the same files write the same page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from fleet.errors import ConfigurationError
from fleet.git import refs, status_records
from fleet.git.objects import Snapshot
from fleet.git.publish import FLEET, Changes, Edit, Identity, Published, fetch_tips, publish
from fleet.git.refs import Address
from fleet.git.repository import GitRepository
from fleet.git.status_records import HEALTH, SYNC, StatusRecord, StatusReport, clean
from fleet.objects.desired import StackCluster
from fleet.text import count_noun

NOTES_REF = "refs/notes/fleet"
"""The note on a source commit: what became of that revision, one line per stack and cluster.

    orders eu-1: Synced, Healthy [2026-11-16T14:00:00Z ada@laptop]
    orders us-1: Failed, Unknown [2026-11-16T14:00:00Z ada@laptop] - the cluster cannot be reached

`git log --notes=fleet` shows it. In brackets is since when it is so, and who applied it. Lines of other writers, and
other people's words, are kept.
"""
_LINE = re.compile(
    rf"(?P<stack>\S+) (?P<cluster>\S+): (?P<sync>{'|'.join(SYNC)}), (?P<health>{'|'.join(HEALTH)})"
    r"(?: \[(?P<at>\S+) (?P<by>[^\]]+)\])?(?: - (?P<message>.+))?"
)


@dataclass(frozen=True, slots=True, order=True)
class PublishOutcome:
    stack: str
    cluster: str
    sync: str
    health: str
    message: str = ""
    at: str = ""  # since when it is so
    by: str = ""  # who applied it; "" in notes of earlier releases

    @classmethod
    def of(cls, report: StatusReport, *, at: str = "", by: str = "") -> PublishOutcome:
        who = clean(by.replace("]", " "), 60)
        sync = report.sync if report.sync in SYNC else "Failed"
        health = report.health if report.health in HEALTH else "Unknown"
        return cls(report.stack, report.cluster, sync, health, clean(report.message), at if who else "", who)

    def __str__(self) -> str:
        reason = f" - {self.message}" if self.message else ""
        when = f" [{self.at} {self.by}]" if self.at and self.by else ""
        return f"{self.stack} {self.cluster}: {self.sync}, {self.health}{when}{reason}"

    def following(self, before: PublishOutcome | None) -> PublishOutcome:
        """Keep the time and the author of the outcome before, if it was the same: a later observation moves nothing."""
        state = (self.sync, self.health, self.message)
        if before and before.at and state == (before.sync, before.health, before.message):
            return replace(self, at=before.at, by=before.by)
        return self


def merge_note(note: str, outcomes: Iterable[PublishOutcome]) -> str:
    """Return the note with our outcomes in place of older ones for the same stack and cluster."""
    foreign_lines, known_outcomes = [], {}
    for line in note.split("\n"):
        outcome = _parse_line(line)
        if outcome:
            known_outcomes[outcome.stack, outcome.cluster] = outcome
        elif line.strip():
            foreign_lines.append(line)
    for outcome in outcomes:
        pair = (outcome.stack, outcome.cluster)
        known_outcomes[pair] = outcome.following(known_outcomes.get(pair))
    return "".join(f"{line}\n" for line in [*foreign_lines, *map(str, sorted(known_outcomes.values()))])


def parse_note(note: str) -> tuple[PublishOutcome, ...]:
    """Return the outcomes that a note holds."""
    return tuple(outcome for outcome in map(_parse_line, note.split("\n")) if outcome)


def note_path(commit: str, paths: Iterable[str]) -> str:
    """Return where the note on `commit` is or belongs: git spreads notes over directories when there are many."""
    existing = list(paths)
    for name in existing:
        if name.replace("/", "") == commit:
            return name
    return f"{commit[:2]}/{commit[2:]}" if len(existing) >= 256 else commit


def _parse_line(line: str) -> PublishOutcome | None:
    match = _LINE.fullmatch(line)
    if not match:
        return None
    groups = match.groupdict()
    message, when = clean(groups["message"] or ""), (groups["at"] or "", groups["by"] or "")
    return PublishOutcome(groups["stack"], groups["cluster"], groups["sync"], groups["health"], message, *when)


BRANCH = "fleet/status"
FindRemoved = Callable[[Iterable[StackCluster]], Iterable[StackCluster]]


@dataclass(frozen=True, slots=True)
class StatusBranch:
    """The content of the status branch; `commit` is None when there is no such branch."""

    records: tuple[StatusRecord, ...]
    problems: tuple[ConfigurationError, ...]
    commit: str | None


def report(
    repository: GitRepository,
    reports: Sequence[StatusReport],
    *,
    removed: Sequence[StackCluster] = (),
    gone: FindRemoved = lambda known: (),
    remote: str | Address | None = "origin",
    branch: str = BRANCH,
    identity: Identity = FLEET,
    by: str = "",
    now: datetime | None = None,
) -> Published:
    """Write what changed, as one commit on the status branch and one on the notes, in one push.

    `by` is who applied it, for the notes. `removed` are (stack, cluster) pairs that are no more, `gone` says which of
    those that the branch knows are no more. When nothing changed, nothing is written.
    """
    at = now or datetime.now(UTC)
    edits = [
        Edit(
            refs.branch_ref(branch),
            _message(reports, removed),
            lambda files: _status_changes(files, reports, removed, gone, at),
        ),
        Edit(
            NOTES_REF, "Notes of fleet\n", lambda files: _note_changes(files, reports, status_records.timestamp(at), by)
        ),
    ]
    return publish(repository, destination(repository, remote), edits, identity=identity)


def read_status(
    repository: GitRepository, *, remote: str | Address | None = "origin", branch: str = BRANCH
) -> StatusBranch:
    """Return the status branch as it is now."""
    ref = refs.branch_ref(branch)
    with fetch_tips(repository, destination(repository, remote), [ref]) as tips:
        records, problems = status_records.decode_all(_record_files(tips[ref]))
    tip = tips[ref]
    return StatusBranch(tuple(records), tuple(problems), tip.commit if tip else None)


def read_placements(
    repository: GitRepository, remote: Address | None, *, branch: str = BRANCH, fresh: bool = True
) -> frozenset[StackCluster] | None:
    """Return the stacks and clusters that the status branch has records of; None when there is no such branch."""
    ref = refs.branch_ref(branch)
    with fetch_tips(repository, remote, [ref], fresh=fresh) as tips:
        tip = tips[ref]
        return (
            frozenset(map(status_records.placement_of, filter(status_records.is_record_path, tip.files("clusters"))))
            if tip
            else None
        )


def read_notes(repository: GitRepository, commit: str, *, remote: str | None = "origin") -> tuple[PublishOutcome, ...]:
    """Return what became of a revision; `commit` is a full id."""
    with fetch_tips(repository, destination(repository, remote), [NOTES_REF]) as tips:
        return parse_note(_read_note(tips[NOTES_REF], commit)[1])


def destination(repository: GitRepository, remote: str | Address | None) -> Address | None:
    """Return the remote to report to: None (this repository's own refs) when it has no remote or none is wanted."""
    return choose_remote(repository.remotes(), remote) if isinstance(remote, str) else remote


def choose_remote(remotes: Mapping[str, str], name: str) -> Address | None:
    """Return the address of the remote of that name; raise ConfigurationError when there are others only."""
    if name in remotes:
        return refs.address(remotes[name], by_person=True)
    if remotes:
        raise ConfigurationError(
            f"this repository has no remote {name!r}", hint=f"it has {', '.join(remotes)}: name one of them"
        )
    return None


def _status_changes(
    tip: Snapshot | None,
    reports: Iterable[StatusReport],
    removed: Iterable[StackCluster],
    gone: FindRemoved,
    now: datetime,
) -> Changes:
    files = _record_files(tip)
    names = {status_records.placement_of(name): name for name in files}
    no_more = [pair for pair in gone(names) if status_records.is_readable(files[names[pair]], names[pair])]
    changes = status_records.changed_files(files, reports, [*removed, *no_more], now)
    if not changes:
        return {}

    after = {**files, **{name: content for name, content in changes.items() if content is not None}}
    for name in [name for name, content in changes.items() if content is None]:
        del after[name]
    records, problems = status_records.decode_all(after)
    return {**changes, PAGE_PATH: render_page(records, unreadable=len(problems))}


def _note_changes(tip: Snapshot | None, reports: Iterable[StatusReport], at: str, by: str) -> Changes:
    by_commit: dict[str, list[PublishOutcome]] = {}
    for report in reports:
        if report.revision:
            by_commit.setdefault(report.revision, []).append(PublishOutcome.of(report, at=at, by=by))
    changes: dict[str, bytes] = {}
    for commit, outcomes in by_commit.items():
        name, before = _read_note(tip, commit)
        after = merge_note(before, outcomes)
        if after != before:
            changes[name] = after.encode()
    return changes


def _record_files(tip: Snapshot | None) -> dict[str, bytes]:
    """Return the record files at a tip; other files that users put on the branch are not read."""
    return tip.read_all("clusters", matching=status_records.is_record_path) if tip else {}


def _read_note(tip: Snapshot | None, commit: str) -> tuple[str, str]:
    """Return where the note on a commit is or belongs, and its text."""
    paths = tip.files() if tip else {}
    name = note_path(commit, paths)
    return name, tip.read(name).decode(errors="replace") if tip and name in paths else ""


def _message(reports: Sequence[StatusReport], removed: Sequence[tuple[str, str]]) -> str:
    """Return the commit's message: what it is about, and of which revision."""
    stacks = sorted({report.stack for report in reports} | {stack for stack, _ in removed})
    clusters = {report.cluster for report in reports} | {cluster for _, cluster in removed}
    shown = ", ".join(stacks[:5]) + (f" and {len(stacks) - 5} more" if len(stacks) > 5 else "")
    revisions = sorted({report.revision[:8] for report in reports if report.revision})
    of = f" at {', '.join(revisions[:3])}" if revisions else ""
    return f"Status of {shown}{of}: {count_noun(len(clusters), 'cluster')}\n"


PAGE_PATH = "README.md"
MOST_ROWS = 2000  # forges cut off long pages
_SIGNS = {
    "Healthy": "🟢",
    "Progressing": "🔵",
    "Degraded": "🔴",
    "Suspended": "⚪",
    "Missing": "🔴",
    "Unknown": "⚫",
}
_ADDRESS = re.compile(r":(?=//)|www(?=\.)|&#(?:64|35|33|36|126|38);", re.IGNORECASE)
_WRONG_HEALTH = frozenset({"Degraded", "Missing"})
_WRONG_SYNC = frozenset({"Failed", "Conflict", "Unreachable", "Cancelled", "Drifted"})


class Versioned(Protocol):
    """An app, as a record of the status branch or an observation of a cluster has it."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def members(self) -> str: ...


def render_page(records: Sequence[StatusRecord], unreadable: int = 0) -> bytes:
    """Return the whole page; `records` come sorted by stack and cluster."""
    lines = ["# Fleet status", "", _summary(records), ""]
    if records:
        lines += ["| Stack | Cluster | Health | Version | Revision | Since |", "|---|---|---|---|---|---|"]
        lines += [_row(record) for record in records[:MOST_ROWS]]
        lines += [""]
    if len(records) > MOST_ROWS:
        lines += [f"{len(records) - MOST_ROWS} more are in the files under `clusters/`.", ""]
    explained = [record for record in records if not record.is_well and (record.message or _app_messages(record))]
    lines += _section("What is wrong", [record for record in explained if _is_wrong(record)])
    lines += _section("What else is not healthy", [record for record in explained if not _is_wrong(record)])
    if unreadable:
        lines += [f"Files under `clusters/` that are of another version and not shown: {unreadable}.", ""]
    lines += [
        "Written by `fleet`; do not edit. One file per cluster and stack is under `clusters/`; "
        "times say since when the health is what it is.",
        "",
    ]
    return "\n".join(lines).encode()


def _is_wrong(record: StatusRecord) -> bool:
    """Tell a failure from what is merely under way, waiting, suspended or not reported on yet."""
    return record.sync in _WRONG_SYNC or bool(_WRONG_HEALTH & {record.health, *(app.health for app in record.apps)})


def _section(title: str, records: Sequence[StatusRecord]) -> list[str]:
    if not records:
        return []
    lines = [f"## {title}", ""]
    for record in records[:MOST_ROWS]:
        lines += [f"- **{record.stack}** on **{record.cluster}**{_reason(record.message)}"]
        lines += [f"  - {kind} {_escape(name)}{_reason(message)}" for kind, name, message in _app_messages(record)]
    return [*lines, ""]


def _summary(records: Sequence[StatusRecord]) -> str:
    if not records:
        return "Nothing is deployed."
    counts = Counter(record.health for record in records)
    parts = [f"{_SIGNS[health]} {counts[health]} {health.lower()}" for health in HEALTH if counts[health]]
    behind = sum(record.sync != "Synced" for record in records)
    parts += [f"⚠️ {behind} not synced"] if behind else []
    return " · ".join(parts)


def _row(record: StatusRecord) -> str:
    health = f"{_SIGNS[record.health]} {record.health}"
    if record.sync != "Synced":
        health += f" · ⚠️ {record.sync}"
    revision = f"`{record.revision[:8]}`" if record.revision else "none"
    if record.wanted != record.revision:
        revision += f" → `{record.wanted[:8]}`"
    since = record.since.replace("T", " ").removesuffix("Z")[:16]
    stack = f"[{record.stack}]({record.path})"
    return f"| {stack} | {record.cluster} | {health} | {_versions(record)} | {revision} | {since} UTC |"


def _versions(record: StatusRecord) -> str:
    return ", ".join(_escape(version) for version in versions_of(record.apps)) or "–"


def versions_of(apps: Iterable[Versioned]) -> list[str]:
    """Return each app's running version and members: "Etcd 3.6.5 (3/3)". Several of a kind have their names."""
    running = [app for app in apps if app.version]
    kinds = Counter(app.kind for app in running)
    return [
        f"{app.kind} {f'{app.name} ' if kinds[app.kind] > 1 else ''}{app.version}"
        + (f" ({app.members})" if app.members else "")
        for app in running
    ]


def _app_messages(record: StatusRecord) -> list[tuple[str, str, str]]:
    """Return the messages of unhealthy apps, but for the one whose message the stack's own is."""
    return [
        (app.kind, app.name, app.message)
        for app in record.apps
        if app.health != "Healthy" and app.message and record.message != f"{app.kind} {app.name}: {app.message}"
    ]


def _reason(message: str) -> str:
    return f": {_code(message)}" if message else ""


def _escape(text: str) -> str:
    """Return text that Markdown and HTML read as text, also inside a table."""
    escaped = "".join(f"&#{ord(letter)};" if letter in "|`*_<>[]&\\@#~!$" else letter for letter in text)
    # Forges look for addresses and mentions in what Markdown has made: a space of no width goes between.
    return _ADDRESS.sub(r"\g<0>&#8203;", escaped)


def _code(message: str) -> str:
    """Return a message as a code span: no link, no mention, no mark-up can be in it."""
    return f"`{message.replace('`', chr(39)).strip()}`"
