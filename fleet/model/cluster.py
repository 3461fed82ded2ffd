"""A cluster as git knows it: a name, labels to place stacks by, and where its credentials are, never what they are.

Labels are a mapping that cannot change, and that says which labels there are when one is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from fleet.errors import ConfigurationError, Source
from fleet.model.base import FrozenMap, Model
from fleet.model.context import current_discovery
from fleet.model.source import NOWHERE, locate
from fleet.model.types import Name
from fleet.model.validation import invalid_value
from fleet.suggestion import suggestion

_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class UnknownLabelError(ConfigurationError, KeyError):
    """A label that a cluster does not have. It is a KeyError too, so that `labels.get(…)`, `in` and `except KeyError`
    work as for any mapping.
    """

    __str__ = ConfigurationError.__str__


class Labels(FrozenMap):
    """Labels of a cluster, with keys and values as Kubernetes takes them."""

    __slots__ = ("_owner",)

    def __init__(self, labels: Mapping[str, str] | None = None, owner: str = "") -> None:
        super().__init__(labels)
        self._owner = owner  # the cluster's name, for errors

    def __getitem__(self, key: str) -> str:
        if key in self:
            return super().__getitem__(key)
        owner = f"cluster {self._owner!r}" if self._owner else "the cluster"
        hint = suggestion(key, self) or f"{owner} has no labels at all: give it some in clusters/"
        raise UnknownLabelError(f"{owner} has no label {key!r}", hint=hint, source=locate(), field=f"labels[{key!r}]")


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        check_label_key(key)
        if value and (len(value) > 63 or not _PART.fullmatch(value)):
            raise invalid_value(
                f"{value!r} is not a value for the label {key!r}", "letters, digits and -_. (63 at most)"
            )
    return dict(labels)


def check_label_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if len(name) > 63 or not _PART.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        raise invalid_value(
            f"{key!r} is not a name for a label", "letters, digits and -_. with a DNS prefix if need be"
        )
    return key


def _read_labels(value: object) -> Labels:
    if isinstance(value, Labels):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise invalid_value(
            "must be a dict of label names and values, both strings", 'such as {"env": "prod", "region": "eu"}'
        )
    return Labels(check_labels(value))


LabelField = Annotated[
    Mapping[str, str], PlainValidator(_read_labels), PlainSerializer(dict, return_type=dict[str, str])
]


class Cluster(Model, frozen=True):
    """One Kubernetes cluster.

    It is reached through a context of the kubeconfig (its own name unless said otherwise), or through a Secret of
    the cluster that `fleet serve` runs in, or not at all: then an agent inside it pulls.
    """

    name: Name = Field(kw_only=False)
    """How stacks, commands and the status branch name it."""
    labels: LabelField = Labels()
    """What `fleet.where` selects by, such as {"env": "prod", "region": "eu"}."""
    context: str | None = None
    """The kubeconfig context; the cluster's name if not given."""
    secret: str | None = None
    """A Secret with a kubeconfig, "namespace/name", in the cluster that runs `fleet serve`."""
    pull: bool = False
    """An agent inside the cluster applies; nobody needs credentials for it."""

    if not TYPE_CHECKING:

        def __init__(self, *positional: Any, **fields: Any) -> None:
            super().__init__(*positional, **fields)
            self.__dict__["labels"] = Labels(self.labels, owner=self.name)
            self.__dict__["_source"] = locate()
            discovery = current_discovery()
            if discovery is not None:
                discovery.clusters.append(self)

        __init__.__pydantic_base_init__ = True

    @property
    def source(self) -> Source:
        """Return the place in the user's files where the cluster is declared."""
        source: Source = self.__dict__.get("_source", NOWHERE)
        return source

    @property
    def kubeconfig_context(self) -> str:
        return self.context or self.name

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        ways = [name for name in ("context", "secret", "pull") if getattr(self, name)]
        if len(ways) > 1:
            raise invalid_value(
                f"cannot be reached by {' and '.join(ways)} at once", f"keep one of {', '.join(ways)}", ways[-1]
            )
        if self.secret is not None and self.secret.count("/") != 1:
            raise invalid_value(f"{self.secret!r} names no namespace", "write 'namespace/name'", "secret")
        return self
