"""Random schedules of faults: drawn from a seed, and carried out.

The events of a schedule are a pure function of the seed and of what may go wrong, so a schedule can be had again. Each
fault is made at its time and undone at its end; a fault that cannot be made is reported and left out.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError, FleetError, NotFoundError
from fleet.lab.faults.api.kinds import ApiFaultBuilder
from fleet.lab.faults.builder import API_SERVER, FaultBuilder
from fleet.lab.faults.fault import Fault, Target, Thing, parse_target
from fleet.lab.faults.inject import clear, inject
from fleet.lab.programs.process import identify
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

MakeFault = Callable[[FaultBuilder, str, Random], Fault]


@dataclass(frozen=True, slots=True)
class Choice:
    """A fault that can be chosen for targets of some kinds."""

    name: str
    things: tuple[Thing, ...]
    make: MakeFault
    once: bool = False  # it happens, and nothing has to be undone
    by_default: bool = True  # chosen also if the user names no faults: all is as before afterwards
    program: str = ""  # the only program that it can happen to

    def fits(self, target: Target) -> bool:
        return target.thing in self.things and self.program in ("", target.name)


CHOICES = (
    Choice("kill", ("pod",), lambda build, target, chance: build.kill(target), once=True),
    Choice("kill", ("node", "program"), lambda build, target, chance: build.kill(target)),
    Choice("freeze", ("pod", "node", "program"), lambda build, target, chance: build.freeze(target)),
    Choice("stop", ("node",), lambda build, target, chance: build.stop(target, grace=5)),
    Choice("partition", ("pod", "node"), lambda build, target, chance: build.partition([target])),
    Choice("isolate", ("pod", "node"), lambda build, target, chance: build.partition([target], [API_SERVER])),
    Choice(
        "delay",
        ("pod", "node"),
        lambda build, target, chance: build.disturb(
            [target], delay=chance.choice([0.02, 0.1, 0.5]), seed=_draw_seed(chance)
        ),
    ),
    Choice(
        "drop",
        ("pod", "node"),
        lambda build, target, chance: build.disturb(
            [target], loss=chance.choice([0.01, 0.1, 0.3]), seed=_draw_seed(chance)
        ),
    ),
    Choice(
        "reorder",
        ("pod", "node"),
        lambda build, target, chance: build.disturb(
            [target], reorder=chance.choice([0.05, 0.25]), seed=_draw_seed(chance)
        ),
    ),
    Choice("fill", ("volume",), lambda build, target, chance: build.fill(target)),
    Choice(
        "corrupt",
        ("volume",),
        lambda build, target, chance: build.corrupt(target, seed=_draw_seed(chance)),
        by_default=False,
    ),
    Choice("lose", ("volume",), lambda build, target, chance: build.lose(target), once=True, by_default=False),
    Choice("lose", ("node",), lambda build, target, chance: build.lose(target), by_default=False),
    # Choices that were added later are not chosen by default, so that an old seed gives the events that it gave.
    Choice(
        "fail",
        ("program",),
        lambda build, target, chance: ApiFaultBuilder(build.cluster).fail(
            chance.choice([429, 500, 503]), share=chance.choice([0.1, 0.5, 1]), seed=_draw_seed(chance)
        ),
        by_default=False,
        program=API_SERVER,
    ),
    Choice(
        "slow",
        ("program",),
        lambda build, target, chance: ApiFaultBuilder(build.cluster).slow(
            chance.choice([0.1, 0.5, 2]), share=chance.choice([0.1, 1]), seed=_draw_seed(chance)
        ),
        by_default=False,
        program=API_SERVER,
    ),
    Choice(
        "forget",
        ("program",),
        lambda build, target, chance: ApiFaultBuilder(build.cluster).forget(after_events=chance.choice([0, 1, 5])),
        by_default=False,
        program=API_SERVER,
    ),
    Choice(
        "skew",
        ("program",),
        lambda build, target, chance: ApiFaultBuilder(build.cluster).skew(chance.choice([-60, -10, 10, 60])),
        by_default=False,
        program=API_SERVER,
    ),
)
NAMES = tuple(dict.fromkeys(choice.name for choice in CHOICES))


def _draw_seed(chance: Random) -> int:
    return chance.randrange(1 << 32)


@dataclass(frozen=True, slots=True)
class Event:
    """A fault at a time, in seconds from the beginning, and for how long; 0 if it happens once."""

    at: float
    fault: Fault
    seconds: float

    def __str__(self) -> str:
        return f"{self.at:7.2f} s  {self.fault}" + (f"  for {self.seconds:.2f} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of faults. The same seed and description always give the same events, on any machine.

    One fault follows the other, with a pause of about `pause` seconds between, until `length` seconds are over.
    """

    seed: int
    cluster: str
    targets: tuple[str, ...]
    length: float = 60
    pause: float = 5
    lasts: tuple[float, float] = (2, 10)
    only: tuple[str, ...] = ()
    namespace: str = "default"

    def events(self) -> tuple[Event, ...]:
        chance = Random(self.seed)  # noqa: S311 - it has to be repeatable
        possible = self._possible()
        builder = FaultBuilder(self.cluster, self.namespace)
        events: list[Event] = []
        now = 0.0
        while True:
            now += chance.uniform(0.5, 1.5) * self.pause
            choice, target = possible[chance.randrange(len(possible))]
            fault = choice.make(builder, target, chance)
            lasts = chance.uniform(*self.lasts)
            seconds = 0.0 if choice.once else lasts
            if now + seconds > self.length:
                return tuple(events)
            events.append(Event(round(now, 2), fault, round(seconds, 2)))
            now += seconds

    def _possible(self) -> list[tuple[Choice, str]]:
        unknown = sorted(set(self.only) - set(NAMES))
        if unknown:
            raise ConfigurationError(
                f"{unknown[0]!r} is nothing that can be chosen", field="--only", hint=f"there are: {', '.join(NAMES)}"
            )
        if self.pause <= 0 or not 0 < self.lasts[0] <= self.lasts[1]:
            raise ConfigurationError(
                "pauses and faults have to last a while", hint="a pause above 0, and a range such as 2 to 10 seconds"
            )
        possible = [
            (choice, str(parse_target(target, self.namespace)))
            for target in self.targets
            for choice in CHOICES
            if choice.fits(parse_target(target, self.namespace)) and self._wants(choice)
        ]
        if not possible:
            raise ConfigurationError(
                "nothing that was asked for can happen to any of the targets", hint=f"faults: {', '.join(NAMES)}"
            )
        return possible

    def _wants(self, choice: Choice) -> bool:
        return choice.name in self.only if self.only else choice.by_default


def play_schedule(lab: Lab, schedule: Schedule, say: Callable[[str], None] = print) -> list[Event]:
    """Carry out a schedule, and return the events that happened.

    The faults end with this process, should it be killed in the middle.
    """
    events = schedule.events()
    say(f"seed {schedule.seed}: {count_noun(len(events), 'fault')} in {schedule.length:g} s")
    owner, began = identify(os.getpid()), time.monotonic()
    played = []
    for event in events:
        _sleep_until(began + event.at)
        try:
            active = inject(lab, event.fault, owner=owner)
        except FleetError as error:
            say(f"{event}: left out: {error.message}")
            continue
        say(str(event))
        played.append(event)
        if event.seconds:
            try:
                _sleep_until(began + event.at + event.seconds)
            finally:
                with contextlib.suppress(NotFoundError):  # another process has cleared it
                    clear(lab, [active.id])
    _sleep_until(began + schedule.length)
    return played


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
