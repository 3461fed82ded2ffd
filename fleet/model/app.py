"""The base class of app types, and how clients reach an app.

An app is a typed spec with an identity. A subclass adds fields, and they become its CRD's spec. Its connection is made
of plain values that are known before the app exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, ValidationError

from fleet.errors import ConfigurationError, Source
from fleet.model.base import STORED, Rule
from fleet.model.context import current_scope, declare
from fleet.model.resource import Adopt, Options, Resource
from fleet.model.source import NOWHERE, locate
from fleet.model.types import AppName, Name
from fleet.names import API_VERSION, GROUP
from fleet.objects.desired import Key
from fleet.objects.shape import mapping

if TYPE_CHECKING:
    from fleet.model.app_settings import SecretRef


@dataclass(frozen=True, slots=True)
class Connection:
    """The operator keeps a Secret of this name with what a client needs and git must not know."""

    scheme: str
    host: str
    port: int
    secret: str
    namespace: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def ref(self, key: str | None = None) -> SecretRef:
        """Return a reference to the Secret, or to one key of it; a stack has no values of it."""
        from fleet.model.app_settings import SecretRef  # noqa: PLC0415 - brings pydantic, which this does without

        return SecretRef(self.secret, key)

    def secret_key(self, key: str) -> dict[str, Any]:
        """Return a reference for a container's environment.

        `{"name": "PASSWORD", "valueFrom": db.connection.secret_key("password")}`
        """
        return {"secretKeyRef": {"name": self.secret, "key": key}}


__all__ = ["API_VERSION", "GROUP", "IDENTITY", "App"]

IDENTITY = frozenset({"name", "namespace", "opts"})  # fields of an app that are not part of its spec

ROLL = "fleet.dev/roll"  # the annotation of a custom resource with which `fleet roll` asks for restarts
ON_DELETE = "fleet.dev/on-delete"  # the annotation that says what becomes of the app when its resource is deleted
ON_DELETE_SINCE = "fleet.dev/on-delete-since"  # the annotation: when a command said so that deletes it next
RELEASE = "release"  # it is given back: all of it runs on, and nothing of it is fleet's
ADOPTION = "adopt"  # in the custom resource's spec: what `opts` say about members that run already


def _adopted_members(app: Any) -> tuple[Any, ...] | None:
    """Return which members the app adopted; None if it was made anew."""
    adoption: Adopt | None = app.adoption
    return (adoption.identity, adoption.stateful_set, dict(adoption.stateful_sets)) if adoption else None


NAMES_IDENTITY = Rule(
    cel="!has(self.adopt) || has(self.adopt.identity)",
    message="must name the identity of the members that are taken over",
    holds=lambda app: app.adoption is None or app.adoption.identity is not None,
    hint="`fleet adopt` shows it, and writes the whole stack",
    field="opts.adopt",
    at=ADOPTION,
)
STAYS_ADOPTED = Rule(
    cel="has(self.adopt) == has(oldSelf.adopt) && (!has(self.adopt) || (self.adopt.identity == oldSelf.adopt.identity"
    " && (has(self.adopt.statefulSet) ? self.adopt.statefulSet : '')"
    " == (has(oldSelf.adopt.statefulSet) ? oldSelf.adopt.statefulSet : '')"
    " && has(self.adopt.statefulSets) == has(oldSelf.adopt.statefulSets)"
    " && (!has(self.adopt.statefulSets) || self.adopt.statefulSets == oldSelf.adopt.statefulSets)))",
    message="says which members the app is, and cannot be changed once the app exists",
    allows=lambda old, new: _adopted_members(old) == _adopted_members(new),
    hint="leave it as it was; `fleet disconnect` gives an app back, and a new one can take it over",
    field="opts.adopt",
    at=ADOPTION,
)


class App(Resource, frozen=True):
    """A stateful app. Constructing one inside a stack's function declares it."""

    name: AppName = Field(kw_only=False)
    """Its name, and the beginning of the name of everything that is made for it, unless `aliases` say a former one."""
    namespace: Name = "default"
    """Where it lives: the stack's own namespace unless said otherwise."""
    opts: Options = Options()
    """How fleet treats it: dependencies, protection, adoption."""

    paused: bool = False
    """The operator watches it and reports, and changes nothing."""

    port: ClassVar[int] = 0  # that clients connect to
    api_group: ClassVar[str] = GROUP  # of the custom resource; a type of an installed package may have its own
    rules: ClassVar[tuple[Rule, ...]] = (NAMES_IDENTITY, STAYS_ADOPTED)

    if not TYPE_CHECKING:

        def __init__(self, *positional: Any, **fields: Any) -> None:
            scope = current_scope()
            if scope is not None:
                fields.setdefault("namespace", scope.namespace)
            super().__init__(*positional, **fields)
            self.__dict__["_source"] = locate()
            declare(self)

        __init__.__pydantic_base_init__ = True

    @classmethod
    def kind(cls) -> str:
        """Return the Kubernetes kind: the name of the class."""
        return cls.__name__

    @property
    def key(self) -> Key:
        """Return the app's identity in the cluster: with aliases that of the first, for Kubernetes cannot rename."""
        now = self.key_in_git
        if not self.opts.aliases:
            return now
        former = (key for key in self.opts.former_keys(now) if (key.group, key.kind) == (now.group, now.kind))
        return next(former, now)

    @property
    def key_in_git(self) -> Key:
        """Return the identity of the app by the name that it has in the stack."""
        return Key(self.api_group, self.kind(), self.namespace, self.name)

    @property
    def endpoint(self) -> str:
        """Host and port that clients inside the cluster connect to. A plain string, known before anything runs."""
        return f"{self.connection.host}:{self.connection.port}"

    @property
    def connection(self) -> Connection:
        """Return everything that a client needs: host, port, URL, and the Secret with credentials and CA."""
        adoption, key = self.adoption, self.key
        return Connection(
            scheme=self._scheme(),
            host=f"{(adoption and adoption.service) or key.name}.{key.namespace}.svc",
            port=(adoption and adoption.port) or self.port,
            secret=f"{key.name}-connection",
            namespace=key.namespace,
        )

    @property
    def adoption(self) -> Adopt | None:
        """Return which running members become this app; None for one that is made anew."""
        return self.opts.adopt if isinstance(self.opts.adopt, Adopt) else None

    def _scheme(self) -> str:
        """Return the scheme of the URL that clients use."""
        return "tcp"

    def spec(self) -> dict[str, Any]:
        """Return the custom resource's spec: only the fields that the user set, in Kubernetes' form."""
        fields = self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True, exclude=set(IDENTITY))
        return {**fields, ADOPTION: self.adoption.dump()} if self.adoption else fields

    @classmethod
    def from_manifest(cls, manifest: dict[str, Any], *, source: Source = NOWHERE) -> Self:
        """Read it back from a custom resource. Declares nothing."""
        metadata = manifest["metadata"]
        spec = dict(mapping(manifest.get("spec")))
        identity: dict[str, Any] = {"name": metadata["name"], "namespace": metadata.get("namespace", "default")}
        if (adoption := spec.pop(ADOPTION, None)) is not None:
            identity["opts"] = {"adopt": adoption}
        try:
            fields = {**spec, **identity}
            app = cls.model_validate(fields, by_alias=True, by_name=False, context={STORED: True})
        except ValidationError as error:
            config_error = cls._make_error(error, by_alias=True)
            raise ConfigurationError(
                f"{Key.of(manifest)}: {config_error.message}",
                hint=config_error.hint,
                source=source,
                field=config_error.field,
            ) from None
        app.__dict__["_roll"] = mapping(metadata.get("annotations")).get(ROLL, "")
        return app

    @property
    def roll(self) -> str:
        """Return what `fleet roll` wrote last, which is no part of the spec: with another value all members restart."""
        return str(self.__dict__.get("_roll", ""))
