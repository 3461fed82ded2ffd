"""The base of every app type: a typed spec with an identity. A subclass adds fields, and they become its CRD's spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, ValidationError

from fleet.errors import ConfigurationError, Source
from fleet.model.connection import Connection
from fleet.model.desired import Key
from fleet.model.group import API_VERSION, GROUP
from fleet.model.options import Options
from fleet.model.resource import Resource
from fleet.model.scope import current, declare
from fleet.model.source import NOWHERE, locate
from fleet.model.types import AppName, Name

__all__ = ["API_VERSION", "GROUP", "IDENTITY", "App"]

IDENTITY = frozenset({"name", "namespace", "opts"})  # fields of an app that are not part of its spec


class App(Resource, frozen=True):
    """A stateful app. Constructing one inside a stack's function declares it."""

    name: AppName = Field(kw_only=False)
    """Its name, and the beginning of the name of everything that is made for it."""
    namespace: Name = "default"
    """Where it lives: the stack's own namespace unless said otherwise."""
    opts: Options = Options()
    """How fleet treats it: dependencies, protection, adoption."""

    paused: bool = False
    """The operator watches it and reports, and changes nothing."""

    port: ClassVar[int] = 0  # that clients connect to

    if not TYPE_CHECKING:

        def __init__(self, *positional: Any, **fields: Any) -> None:
            scope = current()
            if scope is not None:
                fields.setdefault("namespace", scope.namespace)
            super().__init__(*positional, **fields)
            self.__dict__["_source"] = locate()
            declare(self)

        __init__.__pydantic_base_init__ = True

    @classmethod
    def kind(cls) -> str:
        """The Kubernetes kind: the name of the class."""
        return cls.__name__

    @property
    def key(self) -> Key:
        return Key(GROUP, self.kind(), self.namespace, self.name)

    @property
    def endpoint(self) -> str:
        """Host and port that clients inside the cluster connect to. A plain string, known before anything runs."""
        return f"{self.connection.host}:{self.connection.port}"

    @property
    def connection(self) -> Connection:
        """Everything that a client needs: host, port, URL, and the Secret with credentials and CA."""
        return Connection(
            scheme=self._scheme(),
            host=f"{self.name}.{self.namespace}.svc",
            port=self.port,
            secret=f"{self.name}-connection",
            namespace=self.namespace,
        )

    def _scheme(self) -> str:
        """Of the URL that clients use."""
        return "tcp"

    def spec(self) -> dict[str, Any]:
        """The custom resource's spec: only what was said, in Kubernetes' form."""
        return self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True, exclude=set(IDENTITY))

    @classmethod
    def from_manifest(cls, manifest: dict[str, Any], *, source: Source = NOWHERE) -> Self:
        """Read it back from a custom resource. Declares nothing."""
        metadata = manifest["metadata"]
        identity = {"name": metadata["name"], "namespace": metadata.get("namespace", "default")}
        try:
            return cls.model_validate({**manifest.get("spec", {}), **identity}, by_alias=True, by_name=False)
        except ValidationError as error:
            refused = cls._refused(error, by_alias=True)
            raise ConfigurationError(
                f"{Key.of(manifest)}: {refused.message}", hint=refused.hint, source=source, field=refused.field
            ) from None
