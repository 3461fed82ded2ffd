"""Anything that a stack can declare and that options can point at: an app, or another Kubernetes object."""

from __future__ import annotations

from fleet.errors import Source
from fleet.model.base import Model
from fleet.model.desired import Key
from fleet.model.source import NOWHERE


class Resource(Model, frozen=True):
    """Constructing one inside a stack's function declares it."""

    @property
    def key(self) -> Key:
        """Its identity in the cluster."""
        raise NotImplementedError

    @property
    def source(self) -> Source:
        """Where it was written."""
        source: Source = self.__dict__.get("_source", NOWHERE)
        return source
