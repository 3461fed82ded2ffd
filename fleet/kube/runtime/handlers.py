"""Predicates, mappings and owner references. Pure.

A predicate says which changes are worth a pass. A mapping says whose pass a change of an object is: its own, its
owner's, or that of the object that a label names.

`child_of` makes a manifest that belongs to another object, which Kubernetes deletes with its owner. Objects that must
outlive the owner (volumes, databases) are not made with it, but found by a label (`label`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleet.kube.runtime.cache import Change, Name
from fleet.objects.resource import Resource

Mapping = Callable[[dict[str, Any]], Iterable[Name]]


def itself(live: dict[str, Any]) -> Iterable[Name]:
    """Map an object to itself."""
    return (Name.of(live),)


def owner(resource: Resource) -> Mapping:
    """Return a mapping to the object of that kind that controls it, by ownerReferences of any version of the group."""

    def controller_of(live: dict[str, Any]) -> Iterable[Name]:
        metadata = live["metadata"]
        for reference in metadata.get("ownerReferences", ()):
            group = reference["apiVersion"].rpartition("/")[0]
            if reference.get("controller") and (group, reference["kind"]) == (resource.group, resource.kind):
                yield Name(metadata.get("namespace", "") if resource.namespaced else "", reference["name"])

    return controller_of


def label(name: str) -> Mapping:
    """Return a mapping to the object of the same namespace that the label names.

    It is for children that must outlive their owner.
    """

    def named_by_label(live: dict[str, Any]) -> Iterable[Name]:
        metadata = live["metadata"]
        value = metadata.get("labels", {}).get(name)
        if value:
            yield Name(metadata.get("namespace", ""), value)

    return named_by_label


Predicate = Callable[[Change], bool]


def always(change: Change) -> bool:
    return True


def generation_changed(change: Change) -> bool:
    """Return whether what is desired changed, not only the state: status and labels leave the generation as it is.

    A request for deletion raises it. For kinds that have none (ConfigMaps), every change counts.
    """
    if change.before is None or change.after is None:
        return True
    before, after = (side["metadata"].get("generation") for side in (change.before, change.after))
    return before is None or before != after


def labels_changed(change: Change) -> bool:
    return _differs(change, "labels")


def annotations_changed(change: Change) -> bool:
    return _differs(change, "annotations")


def status_changed(change: Change) -> bool:
    if change.before is None or change.after is None:
        return True
    return bool(change.before.get("status") != change.after.get("status"))


def any_of(*predicates: Predicate) -> Predicate:
    return lambda change: any(predicate(change) for predicate in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    return lambda change: all(predicate(change) for predicate in predicates)


def _differs(change: Change, field: str) -> bool:
    if change.before is None or change.after is None:
        return True
    before: Any = change.before["metadata"].get(field)
    return bool(before != change.after["metadata"].get(field))


def child_of(
    parent: dict[str, Any], *, name: str = "", labels: dict[str, str] | None = None, **content: Any
) -> dict[str, Any]:
    """Make a manifest with an owner reference to `parent`, with its name and namespace unless given otherwise."""
    own = parent["metadata"]
    reference = {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": own["name"],
        "uid": own["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: dict[str, Any] = {"name": name or own["name"], "ownerReferences": [reference]}
    if own.get("namespace"):
        metadata["namespace"] = own["namespace"]
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, **content}
