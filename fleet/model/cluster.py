"""A cluster as git knows it: a name, labels to place stacks by, and where its credentials are, never what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from fleet.errors import Source
from fleet.model.base import Model
from fleet.model.discovery import discovered
from fleet.model.invalid import wrong
from fleet.model.labels import LabelField, Labels
from fleet.model.source import NOWHERE, locate
from fleet.model.types import Name


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
            found = discovered()
            if found is not None:
                found.clusters.append(self)

        __init__.__pydantic_base_init__ = True

    @property
    def source(self) -> Source:
        """Where it was written."""
        source: Source = self.__dict__.get("_source", NOWHERE)
        return source

    @property
    def kubeconfig_context(self) -> str:
        return self.context or self.name

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        ways = [name for name in ("context", "secret", "pull") if getattr(self, name)]
        if len(ways) > 1:
            raise wrong(
                f"cannot be reached by {' and '.join(ways)} at once", f"keep one of {', '.join(ways)}", ways[-1]
            )
        if self.secret is not None and self.secret.count("/") != 1:
            raise wrong(f"{self.secret!r} names no namespace", "write 'namespace/name'", "secret")
        return self
