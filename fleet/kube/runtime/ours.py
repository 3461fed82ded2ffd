"""Did our apply make this version of an object, or had it nothing to change and the server answered with another's?

A pass is not woken by its own writes, so taking another's change for one's own would lose it. The server says it in
managedFields: a manager's entry gets a new time with each apply that changed something. Times are in seconds and of
several servers; where they leave a doubt, the answer is no, which costs one more look and loses nothing. Pure.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def made_by_us(before: Object | None, answer: Object, manager: str) -> bool:
    """`before` is the object as cached when the request was sent, `answer` the server's, with all managedFields."""
    if before is None:
        return False
    entries = answer["metadata"].get("managedFields") or ()
    ours = [entry for entry in entries if entry.get("manager") == manager]
    known = [entry for entry in before["metadata"].get("managedFields") or () if entry.get("manager") == manager]
    if not ours or ours == known:
        return False
    latest = max(entry.get("time", "") for entry in ours)
    return all(entry.get("time", "") <= latest for entry in entries)
