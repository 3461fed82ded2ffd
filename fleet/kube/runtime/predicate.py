"""Which changes are worth a pass. A predicate is a function of a change; these are the common ones. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.kube.runtime.cache import Change

Predicate = Callable[[Change], bool]


def always(change: Change) -> bool:
    return True


def generation_changed(change: Change) -> bool:
    """What is wanted changed, not only what is: status and labels leave the generation as it is.

    Asking for deletion raises it. Kinds that have none (ConfigMaps) count every change.
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
