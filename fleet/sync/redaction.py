"""Redaction of results and progress.

No report about a run contains a secret value, whatever the source of its text: an API server, a pod or an operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fleet.errors import FleetError
from fleet.objects.desired import Desired, Key
from fleet.objects.redaction import SecretValues, is_secret
from fleet.sync.progress import Progress
from fleet.sync.result import ObjectHealth, Result


def secrets_of_plan(desired: Iterable[Desired], live: Iterable[Mapping[Key, dict[str, Any] | None]]) -> SecretValues:
    """Return the values of every Secret that git wants or the run has read.

    Values that are also names of stacks, clusters or objects are left out: these are public.
    """
    stacks, live_objects = list(desired), list(live)
    secrets = [obj.manifest for part in stacks for obj in part.objects if is_secret(obj.key)]
    secrets += [manifest for part in live_objects for key, manifest in part.items() if manifest and is_secret(key)]
    if not secrets:
        return SecretValues()
    names = {name for part in stacks for name in (part.stack, part.cluster)}
    keys = {obj.key for part in stacks for obj in part.objects}.union(*(part.keys() for part in live_objects))
    return SecretValues.of(secrets, public=names.union(*keys))


def redact_result(result: Result, hidden: SecretValues) -> Result:
    """Return the result with secret values removed from its errors and messages."""
    if not hidden:
        return result
    return replace(
        result,
        problem=_redact_error(result.problem, hidden),
        unhealthy=_redact_error(result.unhealthy, hidden),
        objects=redact_health(result.objects, hidden),
    )


def redact_health(objects: tuple[ObjectHealth, ...], hidden: SecretValues) -> tuple[ObjectHealth, ...]:
    """Return the health of the objects with secret values removed from its messages."""
    return tuple(health._replace(message=hidden.redact(health.message)) for health in objects) if hidden else objects


def _redact_error(problem: FleetError | None, hidden: SecretValues) -> FleetError | None:
    """Remove secret values from the error, in place; return it."""
    if problem:
        hidden.redact_error(problem)
    return problem


class RedactedProgress:
    """Progress output with secret values removed."""

    def __init__(self, progress: Progress, hidden: SecretValues) -> None:
        self._progress, self._hidden = progress, hidden

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        self._progress.update(stack, cluster, phase, self._hidden.redact(detail))

    def say(self, text: str) -> None:
        self._progress.say(text)
