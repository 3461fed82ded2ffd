"""A member's volume while a backup is put back: nothing, then a half-made directory, then data. Never over data.

    data.part       what the engine's tool writes, or the copy of a tree
    restored.json   which backup `data` is from; it is there before `data` is
    data            what the member starts from; its name is in the plan

The same steps may be taken again after they were cut off anywhere: a half-made directory is made anew, and data that
is from this very backup is left as it is.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fleet.errors import ConflictError, ResourceError
from fleet.kit.backup import content
from fleet.kit.backup.plan import A, BackupPlan

ORIGIN = "restored.json"


def part_of_data(plan: BackupPlan[A]) -> str:
    """Return the name of the directory on a volume that what is put back is written to."""
    return f"{plan.directory}.part"


def clear(plan: BackupPlan[A], volume: Path, checksum: str) -> None:
    """Make room for the engine's tool, which wants to make the directory itself. ConflictError if the volume has data
    that is not of this backup."""
    if _has_data(plan, volume, checksum):
        shutil.rmtree(volume / part_of_data(plan), ignore_errors=True)
        return
    if (volume / part_of_data(plan)).exists():
        shutil.rmtree(volume / part_of_data(plan))
    (volume / ORIGIN).unlink(missing_ok=True)


def link(backup: Path, name: Path) -> None:
    """Give a backup a name that is known before it is chosen; it is read where it lies."""
    name.unlink(missing_ok=True)
    name.symlink_to(backup)


def copy(plan: BackupPlan[A], backup: Path, volume: Path, checksum: str) -> None:
    """Copy a backup that is a tree to where an engine's tool would have written, unless the volume has its data.
    ResourceError if what was copied is not what was picked: others may write to the store meanwhile."""
    part = volume / part_of_data(plan)
    if (volume / plan.directory).exists():
        return  # `clear` has seen that it is of this backup
    content.delete(part)
    content.copy_tree(backup, part)
    if plan.verified(part).checksum != checksum:
        content.delete(part)
        raise ResourceError(f"{backup.name} changed while it was copied")


def place(plan: BackupPlan[A], volume: Path, snapshot: str, checksum: str) -> bool:
    """Make what was put back the member's data. Return False if it had this data already. ResourceError if nothing was
    put back, ConflictError if there is data of another origin."""
    if _has_data(plan, volume, checksum):
        shutil.rmtree(volume / part_of_data(plan), ignore_errors=True)
        return False
    part = volume / part_of_data(plan)
    for needed in (part, *(part / path for path in plan.complete)):
        if not needed.exists():
            raise ResourceError(f"nothing was restored: {needed.relative_to(volume)} is missing")
    content.sync_all(part)
    content.write(volume / ORIGIN, json.dumps({"snapshot": snapshot, "checksum": checksum}) + "\n")
    part.rename(volume / plan.directory)
    content.sync(volume)
    return True


def _has_data(plan: BackupPlan[A], volume: Path, checksum: str) -> bool:
    """Tell whether this backup has been put here before; ConflictError if there is data of another origin."""
    if not (volume / plan.directory).exists():
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
