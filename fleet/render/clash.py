"""One object, one owner: two stacks that want the same object in the same cluster would undo each other's work."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.errors import ConfigurationError
from fleet.model.desired import Desired, Key, Object


def clashes(desired: Iterable[Desired]) -> list[ConfigurationError]:
    """One error for each object that a second stack wants too."""
    owners: dict[tuple[str, Key], tuple[Desired, Object]] = {}
    errors: list[ConfigurationError] = []
    for one in desired:
        for made in one.objects:
            owner, first = owners.setdefault((one.cluster, made.key), (one, made))
            if owner.stack != one.stack:
                hint = f"the other is at {first.source}"
                if made.key.kind == "Namespace":
                    hint += "; give one of the stacks another namespace, or declare it in one and name it in the other"
                errors.append(
                    ConfigurationError(
                        f"{made.key} in cluster {one.cluster!r} is wanted by stacks {owner.stack!r} and {one.stack!r}",
                        hint=hint,
                        source=made.source,
                    )
                )
    return errors
