"""Backups in a directory of a mounted volume: a claim or NFS.

A backup is written under a name that nobody takes for one. It becomes one by being renamed, which is the last thing
that happens; whatever ends this earlier leaves no half backup, and the next one clears up.
"""

from __future__ import annotations

import os
import time as clock
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fleet.errors import AccessError, ResourceError
from fleet.kit.backup import content
from fleet.kit.backup.plan import BackupPlan
from fleet.kit.backup.records import LARGEST, Record, backup_name, part_of, read, record_of
from fleet.kit.backup.schedule import DEADLINE_SECONDS
from fleet.kit.backup.shelf import Describe, age, same_app

ABANDONED_SECONDS = 2 * DEADLINE_SECONDS  # no Job writes to what is that old


@dataclass(frozen=True, slots=True)
class Directory:
    """A shelf that is a directory."""

    plan: BackupPlan[Any]
    path: Path

    def prepare(self, app: str, job: str) -> None:
        """Have a directory that can be written to, without what earlier tries left behind; AccessError or
        ResourceError if there is none to have."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / f".{app}.{job}.probe"
            probe.write_text("")
            probe.unlink()
        except PermissionError as error:
            raise AccessError(
                f"{self.path} cannot be written to by user {os.getuid()}: {error.strerror}",
                hint="give the volume's directory to that user or its group",
            ) from error
        except OSError as error:
            raise ResourceError(f"{self.path} cannot be written to: {error.strerror}") from error
        for left in (*self.path.glob(f".{app}.*"), *self.path.glob(f".{app}-*.json.part")):
            if left.name.startswith(part_of(app, job)) or _is_abandoned(left):
                content.delete(left)

    def put(self, part: Path, version: str, describe: Describe, *, app: str, job: str, now: datetime | None) -> Record:
        time, target = self._reserve(app, version, now or datetime.now(UTC))
        record = describe(target.name, time)
        content.write(record_of(target), record.write())
        part.rename(target)
        content.sync(self.path)
        return record

    def _reserve(self, app: str, version: str, time: datetime) -> tuple[datetime, Path]:
        """Return a time and a name that no other backup has, nor will have that ends in the same second: the file of
        its record is made, and nobody else makes it."""
        time = time.replace(microsecond=0)
        while True:
            target = self.path / backup_name(app, time, version, self.plan.suffix)
            if not target.exists():
                with suppress(FileExistsError):
                    record_of(target).touch(exist_ok=False)
                    return time, target
            time += timedelta(seconds=1)

    def complete(self) -> list[Record]:
        found = (self._complete(file) for file in self.path.glob("*.json"))
        return sorted((record for record in found if record), key=age)

    def _complete(self, file: Path) -> Record | None:
        record = read_record_file(file)
        if record is None or record.kind != self.plan.kind:
            return None
        if record.name != file.with_suffix(f".{self.plan.suffix}").name:
            return None
        return record if self.has(record.name, record.size) else None

    def has(self, name: str, size: int | None = None) -> bool:
        """Tell whether there is what a plan makes, no link to it. A tree has its name only since all of it is there; a
        file could have been cut off later, so that its size is asked for, too, unless nobody knows it."""
        path = self.path / name
        try:
            if path.is_symlink():
                return False
            if self.plan.how == "tree":
                return path.is_dir()
            return path.is_file() and size in (None, path.stat().st_size)
        except OSError:  # gone meanwhile, or not ours to read
            return False

    def recorded(self, name: str) -> Record | None:
        return read_record_file(record_of(self.path / name))

    def fetch(self, name: str, record: Record | None) -> Path:
        return self.path / name

    def remove(self, record: Record) -> None:
        """Delete a backup, and then its record: what is left if that is all that happens is a record of nothing, which
        counts as none. A tree has another name before anything of it goes, so that no half of it is taken for a
        backup."""
        backup = self.path / record.name
        if backup.is_dir():
            backup = backup.rename(self.path / f".{record.app}.{record.name}.part")
        content.delete(backup)
        record_of(self.path / record.name).unlink(missing_ok=True)

    def tidy(self, newest: Record) -> None:
        for file in self.without_backup(newest):
            if _is_old(file):
                file.unlink(missing_ok=True)

    def without_backup(self, like: Record) -> list[Path]:
        """Return records of the same app's whose backup never came, or went first."""
        found = []
        for file in self.path.glob(f"{like.app}-*.json"):
            record = read_record_file(file)
            backup = file.with_suffix(Path(like.name).suffix)
            if record and same_app([record], like) and not backup.exists():
                found.append(file)
        return found


def read_record_file(file: Path) -> Record | None:
    """Return what a plain file says about a backup; None if it is none, whatever else it is. Others may write here,
    too: a pipe would never answer, and a link could lead to what never ends."""
    try:
        return read(content.read_beginning(file, LARGEST))
    except (OSError, UnicodeDecodeError):
        return None


def _is_abandoned(file: Path) -> bool:
    return file.name.endswith((".part", ".probe")) and _is_old(file)


def _is_old(file: Path) -> bool:
    try:
        return clock.time() - file.stat().st_mtime > ABANDONED_SECONDS
    except OSError:
        return False
