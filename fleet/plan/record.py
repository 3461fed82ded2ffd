"""What an inventory says about an object besides its content, and how that changes: its options are not in the object.

They decide what may be deleted later, so a commit that changes only them is a step like any other.
"""

from __future__ import annotations

from typing import Any

from fleet.plan.inventory import Entry
from fleet.plan.step import Change

_OPTIONS = slice(Entry._fields.index("retain"), Entry._fields.index("ignores") + 1)


def option_changes(known: Entry, wanted: Entry) -> tuple[Change, ...]:
    """By the names that users write: `opts=Options(protect=True)`."""
    if known[_OPTIONS] == wanted[_OPTIONS]:
        return ()
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("opts.depends_on", [str(key) for key in known.after], [str(key) for key in wanted.after]),
        ("opts.ignore_changes", list(known.ignores), list(wanted.ignores)),
        ("opts.protect", known.protect, wanted.protect),
        ("opts.retain_on_delete", known.retain, wanted.retain),
    )
    return tuple(Change(path, before, after) for path, before, after in pairs if before != after)


def record_reason(known: Entry, wanted: Entry) -> str:
    """Why else the record is not what it should be, "" if it is."""
    if not known.uid:
        return "was made by a sync that did not finish"
    return f"is written as {wanted.version} now, and was as {known.version}" if known.version != wanted.version else ""
