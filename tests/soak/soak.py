"""One soak from its beginning to its end: the same engine for an hour and for the short form of `make test`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.lab.lab import Lab
from tests.soak.actions import Commit, Settle, Step
from tests.soak.checks import Judge, difference, live, rendered
from tests.soak.model import first
from tests.soak.world import World

ALONE = 30.0  # seconds in which processes end once the service that started them is gone
REST = 180.0  # seconds in which everything comes to rest once nothing is wrong any more
MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one life of the service."""

    seconds: float
    begin: float  # MB, the median of the first tenth after the start
    end: float  # of the last tenth
    most: float

    @classmethod
    def of(cls, samples: list[tuple[float, int]]) -> Memory | None:
        if len(samples) < 20:
            return None
        sizes = [size / MB for _, size in samples[len(samples) // 10 :]]  # without the start itself
        tenth = max(1, len(sizes) // 10)
        seconds = samples[-1][0] - samples[0][0]
        return cls(seconds, statistics.median(sizes[:tenth]), statistics.median(sizes[-tenth:]), max(sizes))

    @property
    def is_flat(self) -> bool:
        """A tenth is what an allocator may keep for itself."""
        return self.end <= self.begin * 1.1 + 2

    def __str__(self) -> str:
        return f"{self.begin:.1f} MB → {self.end:.1f} MB in {self.seconds:.0f} s, at most {self.most:.1f} MB"


class Soak:
    """`with soak.running(): soak.go(steps)`. Raises AssertionError with the step at which it was not well."""

    def __init__(
        self,
        directory: Path,
        lab: Lab,
        stacks: tuple[str, ...],
        patient: str,
        clusters: tuple[str, str],
        say: Callable[[str], None],
    ) -> None:
        self.world = World(directory, lab, clusters, patient)
        self.say = say
        self.steps = 0
        self.rests: list[float] = []  # seconds until everything was as git says
        self.lives: list[Memory] = []
        self._judge = Judge(self.world)
        self._stacks = stacks

    def begin(self) -> None:
        """Everything in place, and well."""
        world = self.world
        world.commit(Commit("a fleet", first(self._stacks)))
        end = time.monotonic() + REST
        for cluster, them in world.strangers.items():
            while them.report(world.patient, "Healthy") is None:
                if time.monotonic() > end:
                    raise AssertionError(f"there is no app in {cluster}:\n{world.processes[0].tail()}")
                time.sleep(0.1)
            world.health[cluster] = "Healthy"
        self.rest()

    def go(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self.steps += 1
            self.say(f"{self.steps:5} {step}")
            try:
                self.world.carry_out(step)
                if isinstance(step.action, Settle):
                    self.rest()
                    self.world.regroup(step.action.replicas)
            except AssertionError as problem:
                raise AssertionError(f"step {self.steps}, {step.action}: {problem}") from None

    def rest(self) -> None:
        """Wait until all is as git says, and look whether anything happened that must not."""
        world, began = self.world, time.monotonic()
        while said := difference(world, found := live(world)):
            if time.monotonic() - began > REST:
                logs = "\n".join(one.tail() for one in world.processes)
                raise AssertionError(f"after {REST:g} s: {said}\n{logs}")
            world.sample()
            time.sleep(0.1)
        self.rests.append(time.monotonic() - began)
        wrong = self._judge.judge(found)
        if wrong:
            raise AssertionError("; ".join(wrong))
        if (life := Memory.of(world.memory)) is not None:
            self.lives.append(life)  # of a process that goes on living, each time longer
        for proxy in world.proxies.values():
            proxy.requests.clear()

    def agrees_with_render(self) -> None:
        """Every field that `fleet render` prints for the last commit is so in the clusters."""
        for wrong in rendered(self.world):
            raise AssertionError(wrong)

    @property
    def kept(self) -> int:
        return self._judge.kept

    def left_over(self) -> list[str]:
        """Processes that outlive the service which started them: a zygote sees that it is alone, and goes."""
        end = time.monotonic() + ALONE
        while (found := self._left_over()) and time.monotonic() < end:
            time.sleep(0.2)
        return found

    def _left_over(self) -> list[str]:
        found = []
        for one in psutil.process_iter():
            with suppress(psutil.Error), one.oneshot():  # it ends just now
                ours = one in self.world.started or str(self.world.directory) in one.cwd()
                if ours and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{one.pid}: {' '.join(one.cmdline())}")
        return found
