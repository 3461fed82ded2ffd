"""Faults in tests: each is a context manager that undoes itself, also when the test process is killed.

    def test_it_survives(real_cluster, faults):
        with faults.partition(["node/real-node-1"], ["kube-apiserver"]):
            ...
        faults.kill("pod/web-0")

Faults of the API server meet every client of a cluster: `faults.api.fail(429, Match(resource="pods"))`. The methods are
those of the verbs in `fleet.lab.faults`, with `seconds` besides: the fault ends by itself after that time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from fleet.errors import NotFoundError
from fleet.lab.faults import ActiveFault, clear, inject, list_active
from fleet.lab.faults.fault import Fault
from fleet.lab.faults.methods import ApiFixtureMethods, FixtureMethods
from fleet.lab.faults.schedule import Event, Schedule, play_schedule
from fleet.lab.faults.verb import FaultVerb, TargetScope
from fleet.lab.programs.process import identify
from fleet.testing.cluster import Cluster


class Broken:
    """A fault that was made: `with` undoes it at the end of the block, `clear()` at any time."""

    def __init__(self, cluster: Cluster, active: ActiveFault) -> None:
        self._cluster = cluster
        self.id = active.id
        self.fault = active.fault

    def clear(self) -> None:
        """Undo the fault; one that is undone already stays so."""
        with contextlib.suppress(NotFoundError):
            clear(self._cluster.lab, [self.id])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


class ApiFaults(ApiFixtureMethods[Broken]):
    """Faults of an API server. A `Match` says which requests; `share` is that of those that match, drawn by `seed`."""

    def __init__(self, cluster: str, inject: Callable[[Fault, float | None], Broken]) -> None:
        self._scope = TargetScope(cluster)
        self._inject = inject

    def _use_verb(self, verb: FaultVerb, *arguments: Any, seconds: float | None = None, **options: Any) -> Broken:
        return self._inject(verb.make(self._scope, *arguments, **options), seconds)


class Faults(FixtureMethods[Broken]):
    """Faults of a cluster. Pods and volumes without a namespace are in the test's own; all end with this process."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._scope = TargetScope(cluster.name, cluster.namespace)
        self.api = ApiFaults(cluster.name, self.inject)

    def _use_verb(self, verb: FaultVerb, *arguments: Any, seconds: float | None = None, **options: Any) -> Broken:
        return self.inject(verb.make(self._scope, *arguments, **options), seconds)

    def inject(self, fault: Fault, seconds: float | None = None) -> Broken:
        """Make a fault that was described already."""
        active = inject(self.cluster.lab, fault, owner=identify(os.getpid()), seconds=seconds)
        return Broken(self.cluster, active)

    def schedule(
        self,
        seed: int,
        targets: Sequence[str],
        *,
        length: float = 60,
        pause: float = 5,
        lasts: tuple[float, float] = (2, 10),
        only: Sequence[str] = (),
    ) -> Schedule:
        """Return faults by chance that are the same for the same seed; `run` carries them out."""
        return Schedule(
            seed, self.cluster.name, tuple(targets), length, pause, lasts, tuple(only), self.cluster.namespace
        )

    def run(self, schedule: Schedule, say: Callable[[str], None] = print) -> list[Event]:
        """Carry out a schedule, and return the events that happened; the seed is printed first."""
        return play_schedule(self.cluster.lab, schedule, say)

    def active(self) -> list[ActiveFault]:
        """Return the faults that are active in the lab now, also those that other processes made."""
        return list_active(self.cluster.lab)

    def clear(self) -> None:
        """Undo all faults of this cluster."""
        ids = [active.id for active in self.active() if active.fault.cluster == self.cluster.name]
        if ids:
            clear(self.cluster.lab, ids)
