"""Where backups are: how a pod reaches the place, and which places this release has no way to. Pure.

The one place that tells kinds of stores apart: one that no pod can mount, such as S3, begins here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.kit.driver import Problem
from fleet.model.app_settings import NFS, S3, Backup, Claim, Restore, Store

MOUNT = "/store"
NO_S3 = "S3 is not served yet", "use Claim(…) or NFS(…)"


def problems(app: Any) -> list[Problem]:
    """Return what this release cannot do about an app's backups, found before anything is made."""
    return list(_problems(app.backup, app.restore_from))


def _problems(backup: Backup | None, restore: Restore | None) -> Iterator[Problem]:
    if backup is not None and isinstance(backup.to, S3):
        yield Problem("backup.to", *NO_S3)
    if restore is not None and isinstance(restore.source, S3):
        yield Problem("restore_from.source", *NO_S3)


def volume(store: Store, *, read_only: bool) -> dict[str, Any]:
    """Return the volume `store` of a pod."""
    match store:
        case Claim(claim=name):
            return {"name": "store", "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}
        case NFS(server=server, path=path):
            return {"name": "store", "nfs": {"server": server, "path": path, "readOnly": read_only}}
    raise NotImplementedError(NO_S3[0])  # `problems` has said so before


def mount(*, read_only: bool) -> dict[str, Any]:
    return {"name": "store", "mountPath": MOUNT, "readOnly": read_only}


def is_of_one_namespace(store: Store) -> bool:
    """Whether only apps of one namespace reach it, so that what says not whose it is must be of that namespace."""
    return isinstance(store, Claim)


def directory(store: Store) -> str:
    """Return the directory of backups inside the pod."""
    folder = store.folder if isinstance(store, Claim) else None
    return f"{MOUNT}/{folder}" if folder else MOUNT
