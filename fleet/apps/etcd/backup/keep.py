"""Before and after etcd writes a snapshot: a place for it, and then its name, its record, and room for the next.

A snapshot is written under a name that nobody takes for a backup. It becomes one by being renamed, which is the last
thing that happens; whatever ends this earlier leaves no half backup, and the next one clears up.
"""

from __future__ import annotations

import logging
import os
import time as clock
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.apps.etcd.backup import shelf
from fleet.apps.etcd.backup.record import Record, file_name, record_of, timestamp
from fleet.apps.etcd.backup.snapshot import verified
from fleet.errors import AccessError, ResourceError

log = logging.getLogger(__name__)
DEADLINE_SECONDS = 3600  # of a whole backup: the pod is ended then
_ABANDONED_SECONDS = 2 * DEADLINE_SECONDS  # nobody writes to a file that old


def part_of(app: str, job: str) -> str:
    """Under which etcd writes, one name for every try of a Job."""
    return f".{app}.{job}.part"


def prepare(directory: Path, app: str, job: str) -> None:
    """Have a directory that can be written to, without what earlier tries left behind."""
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
            left.unlink(missing_ok=True)


def keep(
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
    """Make a backup of the snapshot that was written, and delete those that are too many."""
    shelf.sync_file(part)
    facts = verified(part)
    time = (now or datetime.now(UTC)).replace(microsecond=0)
    while (target := directory / file_name(app, time, version)).exists() or record_of(target).exists():
        time += timedelta(seconds=1)  # another backup of the same second
    record = Record(
        name=target.name,
        app=app,
        namespace=namespace,
        identity=identity,
        time=timestamp(time),
        version=version,
        data_version=facts.data_version,
        revision=facts.revision,
        size=facts.size,
        checksum=facts.checksum,
        place=f"{place}/{target.name}",
    )
    shelf.write(record_of(target), record.write())
    part.rename(target)
    shelf.sync(directory)
    _clear(directory, record, count)
    return record


def _clear(directory: Path, newest: Record, count: int) -> None:
    """The backup is made; what cannot be deleted is said and does not make it a failed one."""
    try:
        for old in shelf.superfluous(shelf.complete(directory), newest, count):
            shelf.remove(directory, old)
            log.info("deleted %s: %d are kept", old.name, count)
        for file in shelf.without_snapshot(directory, newest):
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
