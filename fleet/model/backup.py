"""Where backups go, when they are made, and what a new app starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from fleet.model.base import Model
from fleet.model.invalid import wrong
from fleet.model.secret_ref import SecretName
from fleet.model.shape import OneOf
from fleet.model.types import Cron, ObjectName


def _path(text: str) -> str:
    if not text or text.startswith("/") or ".." in text.split("/") or "//" in text or text.endswith("/"):
        raise wrong(f"{text!r} is not a place in a store", "write it without slashes at its ends: 'bucket/folder'")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/") or ".." in text.split("/"):
        raise wrong(f"{text!r} is not an absolute path", "such as '/exports/backups'")
    return text


Place = Annotated[
    str,
    AfterValidator(_path),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[^/].*$"}),
]


class S3(Model, frozen=True):
    """An S3 bucket, or any store that speaks S3. It comes with a later release: `fleet check` refuses it until then."""

    place: Place = Field(kw_only=False)
    """The bucket and, after a slash, a folder in it."""
    secret: SecretName
    """A Secret in the app's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""
    endpoint: Annotated[str, Field(pattern="^https?://", max_length=512)] | None = None
    """The URL of the store; Amazon's unless given."""
    region: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """The bucket's region."""


class NFS(Model, frozen=True):
    """A directory that an NFS server exports."""

    server: Annotated[str, Field(min_length=1, max_length=253)] = Field(kw_only=False)
    """The server's name or address."""
    path: Annotated[
        str, AfterValidator(_absolute), WithJsonSchema({"type": "string", "maxLength": 512, "pattern": "^/"})
    ] = Field(kw_only=False)
    """The exported directory."""


class Claim(Model, frozen=True):
    """A PersistentVolumeClaim in the app's namespace."""

    claim: ObjectName = Field(kw_only=False)
    """The claim's name."""
    folder: Place | None = None
    """A directory on it."""


Store = S3 | NFS | Claim
_STORES: Mapping[str, type[S3] | type[NFS] | type[Claim]] = {"s3": S3, "nfs": NFS, "claim": Claim}


def _read(value: Any) -> Any:
    """Kubernetes has a union as an object with one of several fields."""
    if isinstance(value, dict):
        if len(value) == 1 and (tag := next(iter(value))) in _STORES:
            return _STORES[tag].read(value[tag])
        raise wrong("must have exactly one of s3, nfs and claim")
    if not isinstance(value, Store):
        raise wrong(
            f"must be S3, NFS or Claim, not {type(value).__name__} {value!r}",
            'such as S3("backups/orders", secret="s3")',
        )
    return value


def _dump(value: Store) -> dict[str, Any]:
    return {next(tag for tag, cls in _STORES.items() if type(value) is cls): value.dump()}


StoreField = Annotated[
    Store, BeforeValidator(_read), PlainSerializer(_dump, return_type=dict[str, Any]), OneOf(_STORES)
]


class Backup(Model, frozen=True):
    """Backups by schedule. Each is checked after it was written."""

    schedule: Cron
    """When, in cron's notation and UTC: "0 3 * * *" is every night at three."""
    to: StoreField
    """Where they are kept."""
    keep: Annotated[int, Field(ge=1, le=10_000)] = 7
    """How many are kept; older ones are deleted once a newer one is complete."""
    suspended: bool = False
    """Make none for now."""


class Restore(Model, frozen=True):
    """What a new app starts from. It has no effect on an app that has data."""

    source: StoreField = Field(kw_only=False)
    """Where the backup is."""
    snapshot: Annotated[str, Field(min_length=1, max_length=253)] = "latest"
    """Which one; the newest that is complete unless given."""
