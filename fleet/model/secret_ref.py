"""A secret as a stack has it: by name. The value stays in the cluster, away from git, from plans and from stacks."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from pydantic import BeforeValidator, Field

from fleet.errors import ConfigurationError
from fleet.model.base import Model
from fleet.model.invalid import wrong
from fleet.model.source import locate
from fleet.model.types.name import OBJECT_NAME, ObjectName, check_object_name


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
        """For an environment: `{"name": "PASSWORD", "valueFrom": SecretRef("db", "password").value_from}`."""
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
        """For `envFrom` of a container: all keys as variables."""
        return {"secretRef": {"name": self.name}}

    @property
    def volume(self) -> dict[str, Any]:
        """For a volume of a pod: `{"name": "tls", **SecretRef("tls").volume}`."""
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


def _named(value: Any) -> Any:
    if not isinstance(value, SecretRef):
        return check_object_name(value) if isinstance(value, str) else value
    if value.key is not None:
        raise wrong(f"takes a whole Secret, not its key {value.key!r}", f'SecretRef("{value.name}")')
    return value.name


SecretName = Annotated[str | SecretRef, BeforeValidator(_named), OBJECT_NAME]
"""A field that takes a whole Secret, by its name or as SecretRef; it holds the name."""
