"""Nothing that is told about a run has a secret value in it, whoever's words it is: a server's, a pod's."""

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
    """The values of every Secret that is wanted or was read, but for those that are names which everybody sees."""
    wanted, here = list(desired), list(live)
    secrets = [one.manifest for each in wanted for one in each.objects if is_secret(one.key)]
    secrets += [found for each in here for key, found in each.items() if found and is_secret(key)]
    if not secrets:
        return SecretValues()
    names = {word for each in wanted for word in (each.stack, each.cluster)}
    keys = {one.key for each in wanted for one in each.objects}.union(*(each.keys() for each in here))
    return SecretValues.of(secrets, public=names.union(*keys))


def redact_result(result: Result, hidden: SecretValues) -> Result:
    if not hidden:
        return result
    return replace(
        result,
        problem=_cleaned(result.problem, hidden),
        unhealthy=_cleaned(result.unhealthy, hidden),
        objects=redact_health(result.objects, hidden),
    )


def redact_health(objects: tuple[ObjectHealth, ...], hidden: SecretValues) -> tuple[ObjectHealth, ...]:
    return tuple(one._replace(message=hidden.redact(one.message)) for one in objects) if hidden else objects


def _cleaned(problem: FleetError | None, hidden: SecretValues) -> FleetError | None:
    if problem:
        hidden.redact_error(problem)
    return problem


class RedactedProgress:
    """What a person sees meanwhile, without it too."""

    def __init__(self, progress: Progress, hidden: SecretValues) -> None:
        self._progress, self._hidden = progress, hidden

    def update(self, stack: str, cluster: str, phase: str, detail: str = "") -> None:
        self._progress.update(stack, cluster, phase, self._hidden.redact(detail))

    def say(self, text: str) -> None:
        self._progress.say(text)
