"""Faults in tests: each is a context manager that undoes itself, also when the test process is killed.

    def test_it_survives(real_cluster, faults):
        with faults.partition(["node/real-node-1"], ["kube-apiserver"]):
            ...
        faults.kill("pod/web-0")

Faults of the API server meet every client of a cluster: `faults.api.fail(429, Match(resource="pods"))`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from fleet.errors import NotFoundError
from fleet.lab.faults import ActiveFault, clear, inject, list_active
from fleet.lab.faults.api.kinds import ALL_REQUESTS, ApiFaultBuilder
from fleet.lab.faults.builder import FaultBuilder
from fleet.lab.faults.fault import Fault
from fleet.lab.faults.schedule import Event, Schedule, play_schedule
from fleet.lab.programs.process import identify
from fleet.lab.proxy.plan import Match
from fleet.testing.cluster import Cluster


class ApiFaults:
    """Faults of an API server. A `Match` says which requests; `share` is that of those that match, drawn by `seed`."""

    def __init__(self, cluster: str, inject: Callable[[Fault, float | None], Broken]) -> None:
        self._builder = ApiFaultBuilder(cluster)
        self._inject = inject

    def fail(
        self,
        status: int = 500,
        match: Match = ALL_REQUESTS,
        *,
        share: float | None = None,
        retry_after: int | None = None,
        seed: int = 0,
        seconds: float | None = None,
    ) -> Broken:
        """Answer requests with an error, such as 429, 500 or 410; they are not carried out."""
        return self._inject(self._builder.fail(status, match, share=share, retry_after=retry_after, seed=seed), seconds)

    def slow(
        self,
        by: float,
        match: Match = ALL_REQUESTS,
        *,
        share: float | None = None,
        seed: int = 0,
        seconds: float | None = None,
    ) -> Broken:
        """Carry requests out so many seconds later."""
        return self._inject(self._builder.slow(by, match, share=share, seed=seed), seconds)

    def forget(self, match: Match = ALL_REQUESTS, *, after_events: int = 0, seconds: float | None = None) -> Broken:
        """End watches with 410 after so many events."""
        return self._inject(self._builder.forget(match, after_events=after_events), seconds)

    def skew(self, by: float, match: Match = ALL_REQUESTS, *, seconds: float | None = None) -> Broken:
        """Show times in Leases so many seconds later, or earlier if negative."""
        return self._inject(self._builder.skew(by, match), seconds)


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


class Faults:
    """Faults of a cluster. Pods and volumes without a namespace are in the test's own; all end with this process."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._builder = FaultBuilder(cluster.name, cluster.namespace)
        self.api = ApiFaults(cluster.name, self.inject)

    def inject(self, fault: Fault, seconds: float | None = None) -> Broken:
        """Make a fault that was described already."""
        active = inject(self.cluster.lab, fault, owner=identify(os.getpid()), seconds=seconds)
        return Broken(self.cluster, active)

    def kill(self, target: str, *, container: str = "", process: str = "", seconds: float | None = None) -> Broken:
        """Kill -9 a pod's processes, a node or a program; the latter two are started again at the end."""
        return self.inject(self._builder.kill(target, container=container, process=process), seconds)

    def freeze(self, target: str, *, container: str = "", process: str = "", seconds: float | None = None) -> Broken:
        """Let a pod's processes, a node or a program stand still."""
        return self.inject(self._builder.freeze(target, container=container, process=process), seconds)

    def stop(self, target: str, *, grace: float = 10, seconds: float | None = None) -> Broken:
        """Shut a node down in good order."""
        return self.inject(self._builder.stop(target, grace=grace), seconds)

    def partition(
        self, side: Sequence[str], other: Sequence[str] = (), *, one_way: bool = False, seconds: float | None = None
    ) -> Broken:
        """Let no packet through between two sides, or between one side and all other addresses."""
        return self.inject(self._builder.partition(side, other, one_way=one_way), seconds)

    def disturb(
        self,
        side: Sequence[str],
        other: Sequence[str] = (),
        *,
        delay: float = 0,
        jitter: float = 0,
        loss: float = 0,
        reorder: float = 0,
        hold: float = 0.02,
        seed: int = 0,
        one_way: bool = False,
        seconds: float | None = None,
    ) -> Broken:
        """Delay (in seconds), drop and reorder (shares) packets, in each direction."""
        fault = self._builder.disturb(
            side, other, delay=delay, jitter=jitter, loss=loss, reorder=reorder, hold=hold, seed=seed, one_way=one_way
        )
        return self.inject(fault, seconds)

    def fill(self, target: str, *, leave: int = 0, seconds: float | None = None) -> Broken:
        """Take all that is free on a volume, but for `leave` bytes."""
        return self.inject(self._builder.fill(target, leave=leave), seconds)

    def corrupt(
        self, target: str, *, file: str = "", places: int = 16, seed: int = 0, seconds: float | None = None
    ) -> Broken:
        """Change bytes of a file on a volume, or of the largest."""
        return self.inject(self._builder.corrupt(target, file=file, places=places, seed=seed), seconds)

    def lose(self, target: str, *, seconds: float | None = None) -> Broken:
        """Lose what is on a volume, for good; or a node with all its disks, until a new one comes at the end."""
        return self.inject(self._builder.lose(target), seconds)

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
