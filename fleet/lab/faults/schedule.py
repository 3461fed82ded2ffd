"""Random schedules of faults: drawn from a seed, and carried out.

The events of a schedule are a pure function of the seed and of what may go wrong, so a schedule can be had again. What
chance may draw is declared with each verb (`verb.Draw`), and its order is that of `registry.FAULTS`. Each
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
from fleet.lab.faults.fault import Fault, parse_target
from fleet.lab.faults.injection import clear, inject
from fleet.lab.faults.registry import load_kind, load_verbs
from fleet.lab.faults.verb import Draw, TargetScope, list_draw_names
from fleet.lab.programs.process import identify
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


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
        scope = TargetScope(self.cluster, self.namespace)
        events: list[Event] = []
        now = 0.0
        while True:
            now += chance.uniform(0.5, 1.5) * self.pause
            draw, target = possible[chance.randrange(len(possible))]
            fault = draw.make(scope, target, chance)
            lasts = chance.uniform(*self.lasts)
            seconds = lasts if load_kind(fault.kind).lasts else 0.0
            if now + seconds > self.length:
                return tuple(events)
            events.append(Event(round(now, 2), fault, round(seconds, 2)))
            now += seconds

    def _possible(self) -> list[tuple[Draw, str]]:
        verbs = load_verbs()
        names = list_draw_names(verbs)
        unknown = sorted(set(self.only) - set(names))
        if unknown:
            raise ConfigurationError(
                f"{unknown[0]!r} is nothing that can be chosen", field="--only", hint=f"there are: {', '.join(names)}"
            )
        if self.pause <= 0 or not 0 < self.lasts[0] <= self.lasts[1]:
            raise ConfigurationError(
                "pauses and faults have to last a while", hint="a pause above 0, and a range such as 2 to 10 seconds"
            )
        wanted_draws = [draw for verb in verbs for draw in verb.draws if self._wants(draw.name or verb.name, draw)]
        targets = [parse_target(target, self.namespace) for target in self.targets]
        possible = [(draw, str(target)) for target in targets for draw in wanted_draws if draw.fits(target)]
        if not possible:
            raise ConfigurationError(
                "nothing that was asked for can happen to any of the targets", hint=f"faults: {', '.join(names)}"
            )
        return possible

    def _wants(self, name: str, draw: Draw) -> bool:
        return name in self.only if self.only else draw.is_default


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
