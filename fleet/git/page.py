"""The status branch as a page: README.md at its root, which every forge shows. Pure.

It is a function of the record files alone, so that two writers that have the same files write the same page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from fleet.git.status import HEALTH, Record

PATH = "README.md"
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
    """An app, as a record of the status branch or a look at a cluster has it."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def members(self) -> str: ...


def render(records: Sequence[Record], unreadable: int = 0) -> bytes:
    """The whole page; `records` come sorted by stack and cluster."""
    lines = ["# Fleet status", "", _summary(records), ""]
    if records:
        lines += ["| Stack | Cluster | Health | Version | Revision | Since |", "|---|---|---|---|---|---|"]
        lines += [_row(record) for record in records[:MOST_ROWS]]
        lines += [""]
    if len(records) > MOST_ROWS:
        lines += [f"{len(records) - MOST_ROWS} more are in the files under `clusters/`.", ""]
    told = [record for record in records if not record.is_well and (record.message or _app_messages(record))]
    lines += _section("What is wrong", [record for record in told if _is_wrong(record)])
    lines += _section("What else is not healthy", [record for record in told if not _is_wrong(record)])
    if unreadable:
        lines += [f"Files under `clusters/` that are of another version and not shown: {unreadable}.", ""]
    lines += [
        "Written by `fleet`; do not edit. One file per cluster and stack is under `clusters/`; "
        "times say since when the health is what it is.",
        "",
    ]
    return "\n".join(lines).encode()


def _is_wrong(record: Record) -> bool:
    """Tell trouble from what is merely under way, waiting, suspended or not reported on yet."""
    return record.sync in _WRONG_SYNC or bool(_WRONG_HEALTH & {record.health, *(app.health for app in record.apps)})


def _section(title: str, records: Sequence[Record]) -> list[str]:
    if not records:
        return []
    lines = [f"## {title}", ""]
    for record in records[:MOST_ROWS]:
        lines += [f"- **{record.stack}** on **{record.cluster}**{_reason(record.message)}"]
        lines += [f"  - {kind} {_plain(name)}{_reason(message)}" for kind, name, message in _app_messages(record)]
    return [*lines, ""]


def _summary(records: Sequence[Record]) -> str:
    if not records:
        return "Nothing is deployed."
    counts = Counter(record.health for record in records)
    words = [f"{_SIGNS[health]} {counts[health]} {health.lower()}" for health in HEALTH if counts[health]]
    behind = sum(record.sync != "Synced" for record in records)
    words += [f"⚠️ {behind} not synced"] if behind else []
    return " · ".join(words)


def _row(record: Record) -> str:
    health = f"{_SIGNS[record.health]} {record.health}"
    if record.sync != "Synced":
        health += f" · ⚠️ {record.sync}"
    revision = f"`{record.revision[:8]}`" if record.revision else "none"
    if record.wanted != record.revision:
        revision += f" → `{record.wanted[:8]}`"
    since = record.since.replace("T", " ").removesuffix("Z")[:16]
    stack = f"[{record.stack}]({record.path})"
    return f"| {stack} | {record.cluster} | {health} | {_versions(record)} | {revision} | {since} UTC |"


def _versions(record: Record) -> str:
    return ", ".join(_plain(version) for version in versions_of(record.apps)) or "–"


def versions_of(apps: Iterable[Versioned]) -> list[str]:
    """Of each app the version that runs, and its members: "Etcd 3.6.5 (3/3)". Several of a kind have their names."""
    running = [app for app in apps if app.version]
    kinds = Counter(app.kind for app in running)
    return [
        f"{app.kind} {f'{app.name} ' if kinds[app.kind] > 1 else ''}{app.version}"
        + (f" ({app.members})" if app.members else "")
        for app in running
    ]


def _app_messages(record: Record) -> list[tuple[str, str, str]]:
    """What unhealthy apps say, but for the one whose words the stack's own message are."""
    return [
        (app.kind, app.name, app.message)
        for app in record.apps
        if app.health != "Healthy" and app.message and record.message != f"{app.kind} {app.name}: {app.message}"
    ]


def _reason(message: str) -> str:
    return f": {_code(message)}" if message else ""


def _plain(text: str) -> str:
    """Text that Markdown and HTML read as text, also inside a table."""
    said = "".join(f"&#{ord(letter)};" if letter in "|`*_<>[]&\\@#~!$" else letter for letter in text)
    # Forges look for addresses and mentions in what Markdown has made: a space of no width goes between.
    return _ADDRESS.sub(r"\g<0>&#8203;", said)


def _code(message: str) -> str:
    """A message as a code span: no link, no mention, no mark-up can be in it."""
    return f"`{message.replace('`', chr(39)).strip()}`"
