"""Where backups are: how a pod reaches the place, and what it is called in words. Pure."""

from __future__ import annotations

from typing import Any

from fleet.apps.driver import Problem
from fleet.apps.etcd.spec import Etcd
from fleet.model.backup import NFS, S3, Claim, Store

MOUNT = "/store"
_NO_S3 = "S3 is not served yet", "use Claim(…) or NFS(…)"


def problems(app: Etcd) -> list[Problem]:
    """What this release cannot do about an app's backups, found before anything is made."""
    found = []
    if app.backup is not None and isinstance(app.backup.to, S3):
        found.append(Problem("backup.to", *_NO_S3))
    if app.restore_from is not None and isinstance(app.restore_from.source, S3):
        found.append(Problem("restore_from.source", *_NO_S3))
    return found


def volume(store: Store, *, read_only: bool) -> dict[str, Any]:
    """For a pod, by the name of `store`."""
    match store:
        case Claim(claim=name):
            return {"name": "store", "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}
        case NFS(server=server, path=path):
            return {"name": "store", "nfs": {"server": server, "path": path, "readOnly": read_only}}
    raise NotImplementedError(_NO_S3[0])  # `problems` has said so before


def mount(*, read_only: bool) -> dict[str, Any]:
    return {"name": "store", "mountPath": MOUNT, "readOnly": read_only}


def directory(store: Store) -> str:
    """Inside the pod."""
    folder = store.folder if isinstance(store, Claim) else None
    return f"{MOUNT}/{folder}" if folder else MOUNT


def place(store: Store) -> str:
    """In words: "claim/backups/orders", "nfs://server/exports"."""
    match store:
        case Claim(claim=name, folder=folder):
            return f"claim/{name}/{folder}" if folder else f"claim/{name}"
        case NFS(server=server, path=path):
            return f"nfs://{server}{path}".rstrip("/")
    return f"s3://{store.place}"
