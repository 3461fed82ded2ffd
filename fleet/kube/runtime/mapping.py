"""Whose pass a change of an object is: its own, its owner's, or that of whoever a label names. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleet.kube.discovery import Resource
from fleet.kube.runtime.cache import Name

Mapping = Callable[[dict[str, Any]], Iterable[Name]]


def itself(found: dict[str, Any]) -> Iterable[Name]:
    return (Name.of(found),)


def owner(resource: Resource) -> Mapping:
    """The object of that kind that controls it, by its ownerReferences; versions of the group do not matter."""

    def controller_of(found: dict[str, Any]) -> Iterable[Name]:
        metadata = found["metadata"]
        for reference in metadata.get("ownerReferences", ()):
            group = reference["apiVersion"].rpartition("/")[0]
            if reference.get("controller") and (group, reference["kind"]) == (resource.group, resource.kind):
                yield Name(metadata.get("namespace", "") if resource.namespaced else "", reference["name"])

    return controller_of


def label(name: str) -> Mapping:
    """The object of the same namespace that the label names: for children that must outlive their owner."""

    def named_by_label(found: dict[str, Any]) -> Iterable[Name]:
        metadata = found["metadata"]
        value = metadata.get("labels", {}).get(name)
        if value:
            yield Name(metadata.get("namespace", ""), value)

    return named_by_label
