"""A directory of backups: which of them are complete, which is the newest, which are too many.

Everything else in the directory is somebody's, and is neither counted nor touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from fleet.apps.etcd.backup.record import LARGEST, Record, read, record_of


def complete(directory: Path) -> list[Record]:
    """All of them, of whichever app, oldest first."""
    found = (_complete(file) for file in directory.glob("*.json"))
    return sorted((record for record in found if record), key=_age)


def _complete(file: Path) -> Record | None:
    try:
        record = read(_text(file))
        snapshot = file.with_suffix(".db")
        if record is None or record.name != snapshot.name or snapshot.is_symlink():
            return None
        return record if snapshot.stat().st_size == record.size else None
    except (OSError, UnicodeDecodeError):  # gone meanwhile, or not ours to read
        return None


def _text(file: Path) -> str:
    """Return what is in a plain file, its beginning at most. Others may write here, too: a pipe would never answer, and
    a link could lead to what never ends. OSError for those."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as content:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{file.name} is no file")
        return content.read(LARGEST).decode()


def same_app(records: Iterable[Record], like: Record) -> list[Record]:
    whose = (like.app, like.namespace, like.identity)
    return [one for one in records if (one.app, one.namespace, one.identity) == whose]


def superfluous(records: Iterable[Record], newest: Record, keep: int) -> list[Record]:
    """The oldest backups of the app that `newest` is of, beyond `keep`; never `newest` itself."""
    older = sorted((one for one in same_app(records, newest) if one.name != newest.name), key=_age, reverse=True)
    return older[max(keep - 1, 0) :]


def without_snapshot(directory: Path, like: Record) -> list[Path]:
    """Records of the same app's whose snapshot never came, or went first."""
    found = []
    for file in directory.glob(f"{like.app}-*.json"):
        try:
            record = read(_text(file))
        except (OSError, UnicodeDecodeError):
            continue
        if record and same_app([record], like) and not file.with_suffix(".db").exists():
            found.append(file)
    return found


def remove(directory: Path, record: Record) -> None:
    """The snapshot first: what is left if that is all that happens is a record of nothing, which counts as none."""
    snapshot = directory / record.name
    snapshot.unlink(missing_ok=True)
    record_of(snapshot).unlink(missing_ok=True)


def write(file: Path, text: str) -> None:
    """There whole or not at all, even after a power cut."""
    temporary = file.with_name(f".{file.name}.part")
    with temporary.open("w") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    temporary.replace(file)
    sync(file.parent)


def sync_file(file: Path) -> None:
    """Make its content last."""
    with file.open("rb") as content:
        os.fsync(content.fileno())


def sync(directory: Path) -> None:
    """Make names in a directory last."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _age(record: Record) -> tuple[str, str]:
    return record.time, record.name
