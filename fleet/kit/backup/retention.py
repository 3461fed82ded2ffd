"""After an engine wrote a backup: it is checked, gets its name and its record, and makes older ones too many."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.errors import FleetError
from fleet.kit.backup import content
from fleet.kit.backup.records import Record, timestamp
from fleet.kit.backup.shelf import Shelf, superfluous

log = logging.getLogger(__name__)


def keep(
    shelf: Shelf,
    part: Path,
    *,
    app: str,
    namespace: str,
    identity: str,
    version: str,
    count: int,
    place: str,
    job: str = "",
    seconds: int = 0,
    now: datetime | None = None,
) -> Record:
    """Make a backup of what was written, delete those that are too many or older than `seconds`, and return its
    record. ResourceError if what was written is not whole, or is not what the place has afterwards."""
    content.sync_all(part)
    facts = shelf.plan.verified(part)

    def describe(name: str, time: datetime) -> Record:
        return Record(
            name=name,
            app=app,
            namespace=namespace,
            identity=identity,
            time=timestamp(time),
            version=version,
            data_version=facts.data_version,
            position=facts.position,
            size=facts.size,
            checksum=facts.checksum,
            place=f"{place}/{name}",
            kind=shelf.plan.kind,
        )

    record = shelf.put(part, version, describe, app=app, job=job, now=now)
    _clear(shelf, record, count, seconds)
    return record


def note(
    kind: str,
    name: str,
    *,
    app: str,
    namespace: str,
    identity: str,
    version: str,
    place: str,
    now: datetime | None = None,
) -> Record:
    """Return the record of a backup in the engine's own repository, of which no more is known."""
    return Record(
        name=name,
        app=app,
        namespace=namespace,
        identity=identity,
        time=timestamp(now or datetime.now(UTC)),
        version=version,
        data_version="",
        position="",
        size=0,
        checksum="",
        place=f"{place}/{name}",
        kind=kind,
    )


def _clear(shelf: Shelf, newest: Record, count: int, seconds: int) -> None:
    """Delete what is too old. The backup is made; what cannot be deleted is said and does not make it a failed one."""
    oldest = ""
    if seconds:
        oldest = timestamp(datetime.fromisoformat(newest.time) - timedelta(seconds=seconds))
    try:
        for old in superfluous(shelf.complete(), newest, count, oldest):
            shelf.remove(old)
            log.info("deleted %s: %d are kept", old.name, count)
        shelf.tidy(newest)
    except (OSError, FleetError) as error:
        log.warning("older backups cannot be deleted: %s", error)
