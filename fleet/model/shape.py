"""Marks on a field that Python does not need and the schema of a custom resource does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel


@dataclass(frozen=True)
class OneOf:
    """The field is a union, which Kubernetes has as an object with exactly one of these fields."""

    models: Mapping[str, type[BaseModel]]


@dataclass(frozen=True)
class KeyedBy:
    """The field is a list whose items are told apart by this field, so that several writers can share it."""

    key: str


@dataclass(frozen=True)
class OfNewApps:
    """The default is that of an app that is made anew. The schema has none: of members that others set up, a custom
    resource would say what they do not have.
    """


OF_NEW_APPS = OfNewApps()
