"""How the resources of a stack belong together: parents, what children inherit, who is under whom."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.model.app import App
from fleet.model.manifest import Manifest
from fleet.model.resource import Resource
from fleet.model.stack import Collected


def objects_of(collected: Collected) -> Iterator[App | Manifest]:
    """Every resource that becomes an object."""
    for resource in collected.resources:
        if isinstance(resource, App | Manifest):
            yield resource


def parent_of(resource: Resource) -> App | Manifest | None:
    parent = resource.opts.parent if isinstance(resource, App | Manifest) else None
    return parent if isinstance(parent, App | Manifest) else None


def ancestors(resource: Resource) -> Iterator[App | Manifest]:
    """Its parent, the parent's parent, and so on. Objects cannot change once made, so this ends."""
    parent = parent_of(resource)
    while parent is not None:
        yield parent
        parent = parent_of(parent)


def inherited(resource: App | Manifest) -> tuple[bool, bool]:
    """Whether it is protected and whether it is retained: its own word, else that of the nearest ancestor."""
    line = [resource.opts, *(ancestor.opts for ancestor in ancestors(resource))]
    protect = next((opts.protect for opts in line if opts.protect is not None), False)
    retain = next((opts.retain_on_delete for opts in line if opts.retain_on_delete is not None), False)
    return protect, retain
