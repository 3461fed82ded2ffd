"""Where backups are: how a pod reaches the place. Pure."""

from __future__ import annotations

from typing import Any

from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.unserved import NO_S3, stores
from fleet.kit.driver import Problem
from fleet.model.app_settings import NFS, Claim, Store

MOUNT = "/store"


def problems(app: Etcd) -> list[Problem]:
    """What this release cannot do about an app's backups, found before anything is made."""
    return list(stores(app))


def volume(store: Store, *, read_only: bool) -> dict[str, Any]:
    """For a pod, by the name of `store`."""
    match store:
        case Claim(claim=name):
            return {"name": "store", "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}
        case NFS(server=server, path=path):
            return {"name": "store", "nfs": {"server": server, "path": path, "readOnly": read_only}}
    raise NotImplementedError(NO_S3[0])  # `problems` has said so before


def mount(*, read_only: bool) -> dict[str, Any]:
    return {"name": "store", "mountPath": MOUNT, "readOnly": read_only}


def directory(store: Store) -> str:
    """Inside the pod."""
    folder = store.folder if isinstance(store, Claim) else None
    return f"{MOUNT}/{folder}" if folder else MOUNT
