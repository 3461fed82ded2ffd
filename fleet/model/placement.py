"""Placement: which clusters a stack goes to, by name or by labels with `where`, and in what order a change reaches
them.

Pure: all clusters go in, the selected ones come out. A rollout also says how long each wave is watched before the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, PlainValidator

from fleet.errors import ConfigurationError, Source
from fleet.model.base import Model
from fleet.model.cluster import Cluster
from fleet.model.source import NOWHERE, locate
from fleet.model.types import Duration, Many, Window
from fleet.model.validation import invalid_value
from fleet.suggestion import closest, suggestion


class Where(ABC):
    """A condition on a cluster's labels. Combine with `&`, `|` and `~`."""

    @abstractmethod
    def matches(self, cluster: Cluster) -> bool: ...

    @abstractmethod
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """Return the labels that it asks about, with the values asked for."""

    def __bool__(self) -> bool:
        # Python's `and`, `or` and `not` ask this, and would silently drop half of the condition.
        raise ConfigurationError(
            "a condition on clusters is neither true nor false", hint="combine with &, | and ~", source=locate()
        )

    def __and__(self, other: Where) -> Where:
        return _All((self, other))

    def __or__(self, other: Where) -> Where:
        return _Any((self, other))

    def __invert__(self) -> Where:
        return _Not(self)


Selector = str | Where
Placement = Selector | Sequence[Selector]


def where(labels: Mapping[str, str | Sequence[str]] | None = None, /, **more: str | Sequence[str]) -> Where:
    """Return a condition for clusters that have every one of these labels; a list means any of its values.

    >>> where(env="prod", region=["eu", "us"])
    where(env='prod', region=['eu', 'us'])

    Labels that are no Python names go into a dict: `where({"topology.kubernetes.io/region": "eu"})`.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for key, value in {**(labels or {}), **more}.items():
        values = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
        for item in values:
            if not isinstance(item, str):
                actual = f"{type(item).__name__} {item!r}"
                raise ConfigurationError(
                    f"must be a string or a list of strings, not {actual}", source=locate(), field=f"where({key})"
                )
        wanted[key] = values
    return _Labels(tuple(wanted.items()))


@dataclass(frozen=True, slots=True)
class _Labels(Where):
    labels: tuple[tuple[str, tuple[str, ...]], ...]

    def matches(self, cluster: Cluster) -> bool:
        return all(cluster.labels.get(key) in values for key, values in self.labels)

    def wanted(self) -> dict[str, tuple[str, ...]]:
        return dict(self.labels)

    def __repr__(self) -> str:
        plain = {key: values[0] if len(values) == 1 else list(values) for key, values in self.labels}
        if all(key.isidentifier() for key in plain):
            return f"where({', '.join(f'{key}={value!r}' for key, value in plain.items())})"
        return f"where({plain!r})"


@dataclass(frozen=True, slots=True)
class _All(Where):
    parts: tuple[Where, ...]

    def matches(self, cluster: Cluster) -> bool:
        return all(part.matches(cluster) for part in self.parts)

    def wanted(self) -> dict[str, tuple[str, ...]]:
        return _merge_labels(self.parts)

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts))


@dataclass(frozen=True, slots=True)
class _Any(Where):
    parts: tuple[Where, ...]

    def matches(self, cluster: Cluster) -> bool:
        return any(part.matches(cluster) for part in self.parts)

    def wanted(self) -> dict[str, tuple[str, ...]]:
        return _merge_labels(self.parts)

    def __repr__(self) -> str:
        return "(" + " | ".join(map(repr, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class _Not(Where):
    part: Where

    def matches(self, cluster: Cluster) -> bool:
        return not self.part.matches(cluster)

    def wanted(self) -> dict[str, tuple[str, ...]]:
        return self.part.wanted()

    def __repr__(self) -> str:
        return f"~{self.part!r}"


def _merge_labels(parts: Iterable[Where]) -> dict[str, tuple[str, ...]]:
    merged: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for key, values in part.wanted().items():
            merged[key] = (*merged.get(key, ()), *values)
    return merged


def read_placement(placement: Placement, *, field: str, source: Source) -> tuple[Selector, ...]:
    """Return a placement as a tuple, or raise an error that says what one is."""
    selectors = (placement,) if isinstance(placement, str | Where) else placement
    if isinstance(selectors, Sequence) and selectors and all(isinstance(part, str | Where) for part in selectors):
        return tuple(selectors)
    actual = (
        "an empty list"
        if isinstance(selectors, Sequence) and not selectors
        else f"{type(placement).__name__} {placement!r}"
    )
    raise ConfigurationError(
        f"must be names of clusters or fleet.where(…), not {actual}",
        hint='such as clusters=fleet.where(env="prod") or clusters=["eu-1", "us-1"]',
        source=source,
        field=field,
    )


def select_clusters(
    selectors: Iterable[Selector], clusters: Sequence[Cluster], *, field: str = "clusters", source: Source = NOWHERE
) -> tuple[Cluster, ...]:
    """Return the clusters that any selector matches, by name. Raise ConfigurationError for unknown names and labels,
    and where none matches.
    """
    selectors = tuple(selectors)
    for selector in selectors:
        _check_known(selector, clusters, field, source)
    selected = {c.name: c for c in clusters if any(_matches(selector, c) for selector in selectors)}
    if not selected:
        selectors_text = ", ".join(map(repr, selectors))
        raise ConfigurationError(
            f"no cluster matches {selectors_text}",
            hint=_describe_values(selectors, clusters),
            source=source,
            field=field,
        )
    return tuple(selected[name] for name in sorted(selected))


def _matches(selector: Selector, cluster: Cluster) -> bool:
    return cluster.name == selector if isinstance(selector, str) else selector.matches(cluster)


def _check_known(selector: Selector, clusters: Sequence[Cluster], field: str, source: Source) -> None:
    if isinstance(selector, str):
        names = [cluster.name for cluster in clusters]
        if selector not in names:
            hint = suggestion(selector, names) or "there are no clusters: add one with `fleet cluster add`"
            raise ConfigurationError(f"there is no cluster {selector!r}", hint=hint, source=source, field=field)
        return
    labels_in_use = {key for cluster in clusters for key in cluster.labels}
    for key in selector.wanted():
        if key not in labels_in_use:
            similar = closest(key, labels_in_use)
            hint = (
                f"did you mean {similar!r}?"
                if similar
                else f"labels in use: {', '.join(sorted(labels_in_use)) or 'none'}"
            )
            hint = 'clusters are chosen by name with clusters=["eu-1"]' if key == "name" else hint
            raise ConfigurationError(f"no cluster has a label {key!r}", hint=hint, source=source, field=field)


def _describe_values(selectors: Iterable[Selector], clusters: Sequence[Cluster]) -> str | None:
    """Return which values the labels have that selectors ask about, as a hint."""
    keys = sorted({key for selector in selectors if isinstance(selector, Where) for key in selector.wanted()})
    values_in_use = [
        f"{key}: {', '.join(sorted({c.labels[key] for c in clusters if key in c.labels}))}" for key in keys
    ]
    return f"values in use: {'; '.join(values_in_use)}" if values_in_use else None


def _check_waves(value: Any) -> tuple[Placement, ...]:
    if isinstance(value, str | Where) or not isinstance(value, Sequence):
        raise invalid_value("must be a list of waves", 'such as ["eu-1", fleet.where(region="us")]')
    for index, wave in enumerate(value):
        parts = (wave,) if isinstance(wave, str | Where) else wave
        if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, str | Where) for part in parts):
            raise invalid_value(
                f"wave {index + 1} must be a cluster's name, fleet.where(…) or a list of them, not {wave!r}"
            )
    return tuple(wave if isinstance(wave, str | Where) else tuple(wave) for wave in value)


def _check_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise invalid_value(f"{name!r} is not a time zone", 'such as "Europe/Berlin" or "UTC"') from None
    return name


class Rollout(Model, frozen=True):
    """Waves of clusters, one after the other; a wave that is unhealthy stops those after it."""

    waves: Annotated[Sequence[Placement], PlainValidator(_check_waves)] = ()
    """Each wave is a cluster's name, `fleet.where(…)` or a list of them. Clusters in no wave come last, together."""
    soak: Duration = "0s"
    """How long a wave must stay healthy before the next one begins."""
    timeout: Duration = "15m"
    """How long a cluster may take to become healthy after its change before the rollout stops."""
    max_unavailable: Annotated[int, Field(ge=0)] = 1
    """How many clusters of a wave may be changing or unhealthy at once; 0 is no limit."""
    on_failure: Literal["stop", "rollback"] = "stop"
    """What `fleet serve` does at the first unhealthy cluster, besides going no further: "rollback" makes a commit that
    takes the stack's own files back to the commit before, if it was well there."""
    rollback_after: Duration = "2m"
    """How long without a break a cluster must be Degraded before `on_failure="rollback"` acts. Health that comes and
    goes, on a machine under load for instance, is no reason."""
    approve: Many[Annotated[int, Field(ge=1)]] = ()
    """Waves, counted from 1, that begin only after `fleet approve STACK WAVE`. It holds for what the stack wants
    there: a later commit that changes that needs another one."""
    windows: Many[Window] = ()
    """When changes may begin, such as "Mon-Fri 09:00-17:00"; at any time unless given."""
    timezone: Annotated[str, AfterValidator(_check_timezone)] = "UTC"
    """In which the windows are."""
    freeze: bool = False
    """Change nothing of the stack, whatever git says; its health is still watched."""

    def order(self, clusters: Sequence[Cluster], *, source: Source = NOWHERE) -> tuple[tuple[str, ...], ...]:
        """Return the names of a stack's clusters, wave by wave."""
        waves: list[tuple[str, ...]] = []
        wave_numbers: dict[str, int] = {}
        for number, wave in enumerate(self.waves, start=1):
            field = f"rollout.waves[{number - 1}]"
            wave_selectors: tuple[Selector, ...] = read_placement(wave, field=field, source=source)
            names = tuple(
                cluster.name for cluster in select_clusters(wave_selectors, clusters, field=field, source=source)
            )
            for name in names:
                if name in wave_numbers:
                    raise ConfigurationError(
                        f"cluster {name!r} is in wave {wave_numbers[name]} already",
                        hint="a cluster is in one wave only",
                        source=source,
                        field=field,
                    )
                wave_numbers[name] = number
            waves.append(names)
        rest = tuple(sorted(cluster.name for cluster in clusters if cluster.name not in wave_numbers))
        return (*waves, rest) if rest else tuple(waves)


AT_ONCE = Rollout(max_unavailable=0)  # of stacks that say nothing: all clusters together
