"""Before and after an engine writes a backup: a place for it, and then its name, its record, and room for the next.

A backup is written under a name that nobody takes for one. It becomes one by being renamed, which is the last thing
that happens; whatever ends this earlier leaves no half backup, and the next one clears up.
"""

from __future__ import annotations

import logging
import os
import time as clock
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.errors import AccessError, ResourceError
from fleet.kit.backup import content, shelf
from fleet.kit.backup.plan import A, BackupPlan
from fleet.kit.backup.records import Record, backup_name, part_of, record_of, timestamp
from fleet.kit.backup.schedule import DEADLINE_SECONDS

log = logging.getLogger(__name__)
_ABANDONED_SECONDS = 2 * DEADLINE_SECONDS  # no Job writes to a file that old


def prepare(directory: Path, app: str, job: str) -> None:
    """Have a directory that can be written to, without what earlier tries left behind; AccessError or ResourceError if
    there is none to have."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".{app}.{job}.probe"
        probe.write_text("")
        probe.unlink()
    except PermissionError as error:
        raise AccessError(
            f"{directory} cannot be written to by user {os.getuid()}: {error.strerror}",
            hint="give the volume's directory to that user or its group",
        ) from error
    except OSError as error:
        raise ResourceError(f"{directory} cannot be written to: {error.strerror}") from error
    for left in (*directory.glob(f".{app}.*"), *directory.glob(f".{app}-*.json.part")):
        if left.name.startswith(part_of(app, job)) or _is_abandoned(left):
            content.delete(left)


def keep(
    plan: BackupPlan[A],
    directory: Path,
    part: Path,
    *,
    app: str,
    namespace: str,
    identity: str,
    version: str,
    count: int,
    place: str,
    now: datetime | None = None,
) -> Record:
    """Make a backup of what was written, delete those that are too many, and return its record. ResourceError if what
    was written is not whole."""
    content.sync_all(part)
    facts = plan.verified(part)
    time, target = _reserve(plan, directory, app, version, now or datetime.now(UTC))
    record = Record(
        name=target.name,
        app=app,
        namespace=namespace,
        identity=identity,
        time=timestamp(time),
        version=version,
        data_version=facts.data_version,
        position=facts.position,
        size=facts.size,
        checksum=facts.checksum,
        place=f"{place}/{target.name}",
        kind=plan.kind,
    )
    content.write(record_of(target), record.write())
    part.rename(target)
    content.sync(directory)
    _clear(plan, directory, record, count)
    return record


def _reserve(plan: BackupPlan[A], directory: Path, app: str, version: str, time: datetime) -> tuple[datetime, Path]:
    """Return a time and a name that no other backup has, nor will have that ends in the same second: the file of its
    record is made, and nobody else makes it."""
    time = time.replace(microsecond=0)
    while True:
        target = directory / backup_name(app, time, version, plan.suffix)
        if not target.exists():
            with suppress(FileExistsError):
                record_of(target).touch(exist_ok=False)
                return time, target
        time += timedelta(seconds=1)


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


def _clear(plan: BackupPlan[A], directory: Path, newest: Record, count: int) -> None:
    """The backup is made; what cannot be deleted is said and does not make it a failed one."""
    try:
        for old in shelf.superfluous(shelf.complete(plan, directory), newest, count):
            shelf.remove(directory, old)
            log.info("deleted %s: %d are kept", old.name, count)
        for file in shelf.without_backup(directory, newest):
            if _is_old(file):
                file.unlink(missing_ok=True)
    except OSError as error:
        log.warning("older backups cannot be deleted: %s", error)


def _is_abandoned(file: Path) -> bool:
    return file.name.endswith((".part", ".probe")) and _is_old(file)


def _is_old(file: Path) -> bool:
    try:
        return clock.time() - file.stat().st_mtime > _ABANDONED_SECONDS
    except OSError:
        return False
