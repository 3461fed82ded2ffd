"""The step for an object that nobody has touched since it was applied, and of which the file says what was applied.

So it is with most objects in most syncs. The inventory has the hash of what was applied and the version that the object
had by that; while both are still so, nothing has to be compared field by field.
"""

from __future__ import annotations

from typing import Any

from fleet.model.desired import Key, Object
from fleet.plan.inventory import Entry
from fleet.plan.normal import applied_hash
from fleet.plan.retention import is_retained
from fleet.plan.step import Step, Verb


def step_for(wanted: Object, key: Key, known: Entry | None, live: dict[str, Any] | None) -> Step | None:
    """None when it is not certain, and a closer look is needed."""
    if known is None or live is None or not _is_as_applied(wanted, key, known, live["metadata"]):
        return None
    return Step(
        Verb.UNCHANGED,
        key,
        uid=known.uid,
        resource_version=known.seen,
        source=wanted.source,
        depends_on=wanted.depends_on,
        entry=known,
    )


def _is_as_applied(wanted: Object, key: Key, known: Entry, there: dict[str, Any]) -> bool:
    manifest = wanted.manifest
    return (
        known.seen == there.get("resourceVersion")
        and known.uid == there["uid"]
        and known.hash == wanted.hashed(applied_hash)
        and "deletionTimestamp" not in there
        and known.version == manifest["apiVersion"].rpartition("/")[2]
        and known.protect == wanted.protect
        and known.after == wanted.depends_on
        and known.ignores == wanted.ignore_changes
        and known.retain == (wanted.retain_on_delete or is_retained(key, manifest))
    )
