"""Carry out a schedule: each fault at its time, undone at its end. What cannot be done is said and left out."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fleet.errors import FleetError, NotFoundError
from fleet.lab.faults.inject import clear, inject
from fleet.lab.faults.schedule import Event, Schedule
from fleet.lab.process import identify
from fleet.printable import count_noun

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def play(lab: Lab, schedule: Schedule, say: Callable[[str], None] = print) -> list[Event]:
    """Those that happened. The faults end with this process, should it be killed in the middle."""
    events = schedule.events()
    say(f"seed {schedule.seed}: {count_noun(len(events), 'fault')} in {schedule.length:g} s")
    owner, began = identify(os.getpid()), time.monotonic()
    happened = []
    for event in events:
        _sleep_until(began + event.at)
        try:
            active = inject(lab, event.fault, owner=owner)
        except FleetError as error:
            say(f"{event}: left out: {error.message}")
            continue
        say(str(event))
        happened.append(event)
        if event.seconds:
            try:
                _sleep_until(began + event.at + event.seconds)
            finally:
                with contextlib.suppress(NotFoundError):  # somebody else has cleared it
                    clear(lab, [active.id])
    _sleep_until(began + schedule.length)
    return happened


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
