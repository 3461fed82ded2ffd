"""Settings that every app has: what its members may use, where their data is, how they are encrypted, where backups go
and when they are made, and what a new app starts from.

A secret is in a stack by name (`SecretRef`). Its value stays in the cluster, away from git, from plans and from stacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NoReturn, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema
from pydantic.alias_generators import to_camel

from fleet.errors import ConfigurationError
from fleet.model.base import IMMUTABLE, STORED, Model, OneOf, Rule
from fleet.model.source import locate
from fleet.model.types import OBJECT_NAME, Cron, Duration, ObjectName, Quantity, amount, check_object_name
from fleet.model.validation import invalid_value
from fleet.times import seconds

S = TypeVar("S", bound=Model)
SHORTEST_LIFE, LONGEST_LIFE = 4 * 60, 3650 * 86_400  # seconds; a renewed file takes a minute to reach a pod
_SECONDS = " + ".join(
    f"(self.find('[0-9]+{unit}') == '' ? 0 : int(self.find('[0-9]+{unit}').replace('{unit}', '')) * {length})"
    for unit, length in (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
)
_LIFE = "must be between four minutes and ten years"
LIFE = Rule(
    cel=f"size(self) <= 12 && {_SECONDS} >= {SHORTEST_LIFE} && {_SECONDS} <= {LONGEST_LIFE}",
    message=_LIFE,
)

ONLY_GROWS = Rule(
    cel="quantity(self).compareTo(quantity(oldSelf)) >= 0",
    message="cannot become smaller: volumes only grow",
    allows=lambda old, new: amount(new) >= amount(old),
    hint="make a new app with less storage and restore a backup into it",
)
ODD = Rule(
    cel="self % 2 == 1",
    message="must be odd, so that a majority can always be found",
    holds=lambda members: members % 2 == 1,
    hint=lambda members: f"{members - 1} or {members + 1}" if members > 1 else "1 or 3",
)
STARTS_ONCE = Rule(
    cel="!has(self.restoreFrom) || (has(oldSelf.restoreFrom) && self.restoreFrom == oldSelf.restoreFrom)",
    message="can only be given when the app is new",
    allows=lambda old, new: new.restore_from is None or new.restore_from == old.restore_from,
    hint="make a new app with restore_from, or remove it here: it has done its work",
    field="restore_from",
)
ENCRYPTION_STAYS = Rule(
    cel="self.tls.enabled == oldSelf.tls.enabled || (has(self.adopt) && self.tls.enabled)",
    message=IMMUTABLE.message,
    allows=lambda old, new: new.tls.enabled == old.tls.enabled or (new.adoption is not None and new.tls.enabled),
    hint=IMMUTABLE.hint,
    field="tls.enabled",
    at="tls.enabled",
)


def refuse_if_adopted(field: str, why: str, hint: str = "leave it out") -> Rule:
    """Return the rule of a field that means nothing for members that others set up."""
    return Rule(
        cel=f"!has(self.adopt) || !has(self.{field})",
        message=f"is not for members that were taken over: {why}",
        holds=lambda app: app.adoption is None or getattr(app, field) is None,
        hint=hint,
        field=field,
    )


def name_once(field: str, key: str, *, message: str, hint: str) -> Rule:
    """Return the rule that no two entries of a list have the same `key`."""
    name = to_camel(field)
    return Rule(
        cel=f"!has(self.{name}) || self.{name}.all(one, self.{name}.exists_one(other, other.{key} == one.{key}))",
        message=message,
        holds=lambda self: len({getattr(entry, key) for entry in getattr(self, field)}) == len(getattr(self, field)),
        hint=hint,
        field=field,
    )


def settings_of(app: Any, field: str, kind: type[S]) -> S:
    """Return what an app says in the field of a mixin; what that is by default for one of a type without the mixin."""
    given = getattr(app, field, None)
    return given if isinstance(given, kind) else kind()


def _check_life(text: str, info: ValidationInfo) -> str:
    """Return a checked lifetime. One that a cluster has already may be older than these bounds; the operator keeps to
    them in any case.
    """
    if not (info.context or {}).get(STORED) and not SHORTEST_LIFE <= seconds(text) <= LONGEST_LIFE:
        raise invalid_value(
            f"{_LIFE}, not {text!r}", "90d is the usual choice: certificates are renewed after two thirds of it"
        )
    return text


def _is_within(limit: str | None, request: str) -> bool:
    return limit is None or amount(limit) >= amount(request)


class Resources(Model, frozen=True):
    """CPU and memory of each member."""

    cpu: Quantity = "250m"
    """CPU that is set aside for each member."""
    memory: Quantity = "512Mi"
    """Memory that is set aside for each member."""
    cpu_limit: Quantity | None = None
    """The most CPU that a member may use; no limit unless given."""
    memory_limit: Quantity | None = None
    """The most memory that a member may use; what is set aside unless given."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.cpuLimit) || quantity(self.cpuLimit).compareTo(quantity(self.cpu)) >= 0",
            message="the limit of CPU is less than what is set aside",
            holds=lambda self: _is_within(self.cpu_limit, self.cpu),
            field="cpu_limit",
        ),
        Rule(
            cel="!has(self.memoryLimit) || quantity(self.memoryLimit).compareTo(quantity(self.memory)) >= 0",
            message="the limit of memory is less than what is set aside",
            holds=lambda self: _is_within(self.memory_limit, self.memory),
            field="memory_limit",
        ),
    )


class Volume(Model, frozen=True):
    """How the members' volumes are made and what becomes of them."""

    storage_class: Annotated[ObjectName | None, IMMUTABLE] = None
    """The StorageClass; the cluster's default unless given."""
    on_delete: Literal["keep", "delete"] = "keep"
    """What becomes of the data when the app is removed from git."""
    on_scale_in: Literal["keep", "delete"] = "delete"
    """What becomes of a member's volume when the member has left for good."""


class TLS(Model, frozen=True):
    """Encryption between clients and members and between members."""

    enabled: bool = True
    """Encrypt, and let only clients in that have a certificate of the app's own CA, which the operator makes.
    It cannot be changed once the app exists, but can be turned on for members that were taken over without it."""
    lifetime: Annotated[Duration, AfterValidator(_check_life), LIFE] = "90d"
    """How long certificates are valid; they are renewed after two thirds of it."""
    authority: Annotated[str, Field(max_length=63)] = ""
    """Any word. Another one makes a new CA: members restart once to trust it, then certificates move to it."""


class Passwords(Model, frozen=True):
    """The passwords of an app's users. The operator makes them; they are in the cluster alone."""

    rotation: Annotated[str, Field(max_length=63)] = ""
    """Any word. Another one gives all users new passwords: for a day members accept the old ones as well."""


class SecretRef(Model, frozen=True):
    """A Secret, or one key of it, in the namespace of whoever refers to it.

    It cannot be put into a text: a stack does not have the value.
    """

    name: ObjectName = Field(kw_only=False)
    """The Secret's name."""
    key: Annotated[str, Field(pattern="^[-._a-zA-Z0-9]+$", max_length=253)] | None = Field(default=None, kw_only=False)
    """One of its keys; the whole Secret unless given."""

    @property
    def value_from(self) -> dict[str, Any]:
        """Return the value for `{"name": "PASSWORD", "valueFrom": SecretRef("db", "password").value_from}`."""
        if self.key is None:
            raise ConfigurationError(
                f"the Secret {self.name!r} as a whole is no value",
                hint=f'name one of its keys: SecretRef("{self.name}", "password")',
                source=locate(),
                field="SecretRef",
            )
        return {"secretKeyRef": {"name": self.name, "key": self.key}}

    @property
    def env_from(self) -> dict[str, Any]:
        """Return an entry for `envFrom` of a container: all keys as variables."""
        return {"secretRef": {"name": self.name}}

    @property
    def volume(self) -> dict[str, Any]:
        """Return an entry for the volumes of a pod: `{"name": "tls", **SecretRef("tls").volume}`."""
        return {"secret": {"secretName": self.name}}

    def __str__(self) -> NoReturn:
        raise ConfigurationError(
            f"the value of the Secret {self.name!r} is in the cluster, and not in a stack's hands",
            hint="refer to it where it is used: value_from, env_from or volume",
            source=locate(),
            field="SecretRef",
        )

    def __format__(self, form: str) -> NoReturn:
        self.__str__()


def _secret_name(value: Any) -> Any:
    if not isinstance(value, SecretRef):
        return check_object_name(value) if isinstance(value, str) else value
    if value.key is not None:
        raise invalid_value(f"takes a whole Secret, not its key {value.key!r}", f'SecretRef("{value.name}")')
    return value.name


SecretName = Annotated[str | SecretRef, BeforeValidator(_secret_name), OBJECT_NAME]
"""A field that takes a whole Secret, by its name or as SecretRef; it holds the name."""


def _check_place(text: str) -> str:
    if not text or text.startswith("/") or ".." in text.split("/") or "//" in text or text.endswith("/"):
        raise invalid_value(
            f"{text!r} is not a place in a store", "write it without slashes at its ends: 'bucket/folder'"
        )
    return text


def _check_absolute(text: str) -> str:
    if not text.startswith("/") or ".." in text.split("/"):
        raise invalid_value(f"{text!r} is not an absolute path", "such as '/exports/backups'")
    return text


Place = Annotated[
    str,
    AfterValidator(_check_place),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[^/].*$"}),
]


_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _check_bucket(text: str) -> str:
    if "://" in text:
        raise invalid_value(
            f"{text!r} is a URL", "write the bucket and a folder, 'bucket/folder'; the store's URL is endpoint="
        )
    if not _BUCKET.fullmatch(_check_place(text).partition("/")[0]):
        raise invalid_value(
            f"{text.partition('/')[0]!r} is not the name of a bucket",
            "letters, digits, dots and hyphens: 'bucket/folder'",
        )
    return text


BucketPlace = Annotated[
    str,
    AfterValidator(_check_bucket),
    WithJsonSchema(
        {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*(/.+)?$"}
    ),
]


def _check_endpoint(text: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+/?", text):
        raise invalid_value(
            f"{text!r} is not the URL of a store", "scheme, name and port alone: 'https://s3.example.com:9000'"
        )
    return text


class S3(Model, frozen=True):
    """An S3 bucket, or one of any store that speaks S3."""

    place: BucketPlace = Field(kw_only=False)
    """The bucket and, after a slash, a folder in it."""
    secret: SecretName
    """A Secret in the app's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; with AWS_SESSION_TOKEN for keys
    that end, and with `ca.crt`, certificates in PEM, for a store whose own CA is to be trusted."""
    endpoint: Annotated[str, Field(pattern="^https?://", max_length=512), AfterValidator(_check_endpoint)] | None = None
    """The URL of the store; Amazon's unless given."""
    region: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """The bucket's region; us-east-1 unless given."""
    style: Literal["path", "host"] | None = None
    """Where URLs have the bucket's name: `host`, as Amazon wants it, or `path`, as stores with an endpoint have it
    unless given."""
    encryption: SecretName | None = None
    """A Secret in the app's namespace with the `key` that backups are encrypted with before they are sent: 32 bytes in
    base64. Older ones are opened with its key `previous`. Who loses the key has lost the backups."""


class NFS(Model, frozen=True):
    """A directory that an NFS server exports."""

    server: Annotated[str, Field(min_length=1, max_length=253)] = Field(kw_only=False)
    """The server's name or address."""
    path: Annotated[
        str, AfterValidator(_check_absolute), WithJsonSchema({"type": "string", "maxLength": 512, "pattern": "^/"})
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


def _read_store(value: Any) -> Any:
    """Return the store that a value stands for. Kubernetes has a union as an object with one of several fields."""
    if isinstance(value, dict):
        if len(value) == 1 and (tag := next(iter(value))) in _STORES:
            return _STORES[tag].read(value[tag])
        raise invalid_value("must have exactly one of s3, nfs and claim")
    if not isinstance(value, Store):
        raise invalid_value(
            f"must be S3, NFS or Claim, not {type(value).__name__} {value!r}",
            'such as S3("backups/orders", secret="s3")',
        )
    return value


def _dump_store(value: Store) -> dict[str, Any]:
    return {next(tag for tag, cls in _STORES.items() if type(value) is cls): value.dump()}


StoreField = Annotated[
    Store, BeforeValidator(_read_store), PlainSerializer(_dump_store, return_type=dict[str, Any]), OneOf(_STORES)
]


class Backup(Model, frozen=True):
    """Backups by schedule. Each is checked after it was written."""

    schedule: Cron
    """When, in cron's notation and UTC: "0 3 * * *" is every night at three."""
    to: StoreField
    """Where they are kept."""
    keep: Annotated[int, Field(ge=1, le=10_000)] = 7
    """How many are kept; older ones are deleted once a newer one is complete."""
    keep_for: Duration | None = None
    """For how long they are kept, such as "30d", if fewer than `keep` are younger; the newest is never deleted."""
    trial: Cron | None = None
    """When the newest one is restored on trial, into a place that nothing reads, in the same notation; the condition
    `Recoverable` says how the last trial ended."""
    suspended: bool = False
    """Make none for now."""


class Restore(Model, frozen=True):
    """What a new app starts from. It has no effect on an app that has data."""

    source: StoreField = Field(kw_only=False)
    """Where the backup is."""
    snapshot: Annotated[str, Field(min_length=1, max_length=253)] = "latest"
    """Which one; the newest that is complete unless given."""
