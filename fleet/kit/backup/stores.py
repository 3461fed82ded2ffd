"""Where backups are: how a pod reaches the place. Pure.

The one place that tells kinds of stores apart. Volumes are mounted. A bucket is reached by our own steps, with what its
Secret has in their environment; engines' tools write to and read from a scratch volume of the pod in its place.
"""

from __future__ import annotations

from typing import Any, cast

from fleet.model.app_settings import NFS, S3, Claim, Store

MOUNT = "/store"
ACCESS_KEY, SECRET_KEY, SESSION = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
AUTHORITY = "FLEET_STORE_CA"  # certificates in PEM
ENCRYPTION_KEY, PREVIOUS_KEY = "FLEET_BACKUP_KEY", "FLEET_BACKUP_PREVIOUS_KEY"


def volume(store: Store, *, read_only: bool) -> dict[str, Any]:
    """Return the volume `store` of a pod."""
    match store:
        case Claim(claim=name):
            return {"name": "store", "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}
        case NFS(server=server, path=path):
            return {"name": "store", "nfs": {"server": server, "path": path, "readOnly": read_only}}
        case S3():
            return {"name": "store", "emptyDir": {}}


def mount(*, read_only: bool) -> dict[str, Any]:
    return {"name": "store", "mountPath": MOUNT, "readOnly": read_only}


def is_fetched(store: Store) -> bool:
    """Tell whether what is read is brought into the pod before, so that its place there must be writable."""
    return isinstance(store, S3)


def is_of_one_namespace(store: Store) -> bool:
    """Tell whether only apps of one namespace reach it, so that what says not whose it is must be of that namespace."""
    return isinstance(store, Claim)


def directory(store: Store) -> str:
    """Return the directory of backups inside the pod; of a bucket, that of what is on its way."""
    folder = store.folder if isinstance(store, Claim) else None
    return f"{MOUNT}/{folder}" if folder else MOUNT


def arguments(store: Store) -> list[str]:
    """Return what our own steps are told of a place that is not mounted."""
    if not isinstance(store, S3):
        return []
    said = {
        "bucket": store.place,
        "endpoint": store.endpoint,
        "region": store.region,
        "style": store.style,
        "secret": store.secret,
        "encryption": store.encryption,
    }
    return [f"--{name}={text}" for name, text in said.items() if text]


def environment(store: Store) -> list[dict[str, Any]]:
    """Return the variables of our own steps, from the Secrets of the app's namespace."""
    if not isinstance(store, S3):
        return []
    secret, encryption = cast(str, store.secret), cast(str | None, store.encryption)  # which hold names
    found = [
        _variable(ACCESS_KEY, secret, ACCESS_KEY),
        _variable(SECRET_KEY, secret, SECRET_KEY),
        _variable(SESSION, secret, SESSION, optional=True),
        _variable(AUTHORITY, secret, "ca.crt", optional=True),
    ]
    if encryption:
        found.append(_variable(ENCRYPTION_KEY, encryption, "key"))
        found.append(_variable(PREVIOUS_KEY, encryption, "previous", optional=True))
    return found


def _variable(name: str, secret: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    reference: dict[str, Any] = {"name": secret, "key": key}
    if optional:
        reference["optional"] = True
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}
