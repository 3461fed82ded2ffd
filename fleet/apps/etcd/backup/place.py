"""A member's volume while a backup is put back: nothing, then a half-made directory, then data. Never over data.

    data.part       what etcd's tool writes
    restored.json   which backup `data` is from; it is there before `data` is
    data            what the member starts from

The same steps may be taken again after they were cut off anywhere: a half-made directory is made anew, and data that
is from this very backup is left as it is.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from fleet.apps.etcd.backup import shelf
from fleet.errors import ConflictError, ResourceError

DATA, PART, ORIGIN = "data", "data.part", "restored.json"


def clear(volume: Path, checksum: str) -> None:
    """Make room for etcd's tool, which wants to make the directory itself."""
    if _has_data(volume, checksum):
        shutil.rmtree(volume / PART, ignore_errors=True)
        return
    if (volume / PART).exists():
        shutil.rmtree(volume / PART)
    (volume / ORIGIN).unlink(missing_ok=True)


def link(snapshot: Path, name: Path) -> None:
    """Under a name that is known before the backup is chosen; it is read where it lies."""
    name.unlink(missing_ok=True)
    name.symlink_to(snapshot)


def place(volume: Path, snapshot: str, checksum: str) -> bool:
    """Make what etcd's tool wrote the member's data. False if it had this data already."""
    if _has_data(volume, checksum):
        shutil.rmtree(volume / PART, ignore_errors=True)
        return False
    part = volume / PART
    for needed in (part / "member" / "snap" / "db", part / "member" / "wal"):
        if not needed.exists():
            raise ResourceError(f"nothing was restored: {needed.relative_to(volume)} is missing")
    _sync(part)
    shelf.write(volume / ORIGIN, json.dumps({"snapshot": snapshot, "checksum": checksum}) + "\n")
    part.rename(volume / DATA)
    shelf.sync(volume)
    return True


def _has_data(volume: Path, checksum: str) -> bool:
    """Whether this backup has been put here before; ConflictError if there is data of another origin."""
    if not (volume / DATA).exists():
        return False
    try:
        origin = json.loads((volume / ORIGIN).read_text())
    except (OSError, ValueError):
        origin = {}
    if not isinstance(origin, dict) or origin.get("checksum") != checksum:
        raise ConflictError(
            "the volume has data that is not from this backup; nothing was changed",
            hint="restore into an app of another name, or delete the volume if its data is not needed",
        )
    return True


def _sync(directory: Path) -> None:
    for root, _, files in os.walk(directory, topdown=False):
        for name in files:
            shelf.sync_file(Path(root) / name)
        shelf.sync(Path(root))
