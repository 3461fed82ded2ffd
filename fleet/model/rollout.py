"""In what order a change reaches the clusters of a stack, and how long each wave is watched before the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, PlainValidator

from fleet.errors import ConfigurationError, Source
from fleet.model.base import Model
from fleet.model.cluster import Cluster
from fleet.model.invalid import wrong
from fleet.model.placement import Placement, Selector, Where, place, selectors
from fleet.model.source import NOWHERE
from fleet.model.types import Duration
from fleet.model.types.many import Many
from fleet.model.types.window import Window


def _waves(value: Any) -> tuple[Placement, ...]:
    if isinstance(value, str | Where) or not isinstance(value, Sequence):
        raise wrong("must be a list of waves", 'such as ["eu-1", fleet.where(region="us")]')
    for index, wave in enumerate(value):
        parts = (wave,) if isinstance(wave, str | Where) else wave
        if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, str | Where) for part in parts):
            raise wrong(f"wave {index + 1} must be a cluster's name, fleet.where(…) or a list of them, not {wave!r}")
    return tuple(wave if isinstance(wave, str | Where) else tuple(wave) for wave in value)


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise wrong(f"{name!r} is not a time zone", 'such as "Europe/Berlin" or "UTC"') from None
    return name


class Rollout(Model, frozen=True):
    """Waves of clusters, one after the other; a wave that is unhealthy stops those after it."""

    waves: Annotated[Sequence[Placement], PlainValidator(_waves)] = ()
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
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    """In which the windows are."""
    freeze: bool = False
    """Change nothing of the stack, whatever git says; health is looked after as ever."""

    def order(self, clusters: Sequence[Cluster], *, source: Source = NOWHERE) -> tuple[tuple[str, ...], ...]:
        """The names of a stack's clusters, wave by wave."""
        waves: list[tuple[str, ...]] = []
        taken: dict[str, int] = {}
        for number, wave in enumerate(self.waves, start=1):
            field = f"rollout.waves[{number - 1}]"
            chosen: tuple[Selector, ...] = selectors(wave, field=field, source=source)
            names = tuple(cluster.name for cluster in place(chosen, clusters, field=field, source=source))
            for name in names:
                if name in taken:
                    raise ConfigurationError(
                        f"cluster {name!r} is in wave {taken[name]} already",
                        hint="a cluster is in one wave only",
                        source=source,
                        field=field,
                    )
                taken[name] = number
            waves.append(names)
        rest = tuple(sorted(cluster.name for cluster in clusters if cluster.name not in taken))
        return (*waves, rest) if rest else tuple(waves)


AT_ONCE = Rollout(max_unavailable=0)  # of stacks that say nothing: all clusters together
