"""One measured figure: a median with its spread, and what it was hoped to be."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    values: tuple[float, ...]
    unit: str
    goal: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def shortfall(self) -> str:
        """Return a sentence for a goal that is missed, "" otherwise."""
        if self.met is not False:
            return ""
        return f"The goal is missed for *{self.name}*: {_short(self.median)} {self.unit}, and {self.goal} was the goal."

    def row(self) -> list[str]:
        spread = f"{_short(min(self.values))} to {_short(max(self.values))}" if len(self.values) > 1 else ""
        met = {None: "", True: "yes", False: "NO"}[self.met]
        return [
            self.name,
            f"{_short(self.median)} {self.unit}",
            spread,
            str(len(self.values)),
            self.goal,
            met,
            self.note,
        ]


HEADER = ["figure", "median", "spread", "runs", "goal", "met", "note"]


def at_most(name: str, values: list[float], unit: str, limit: float, note: str = "") -> Figure:
    """A figure whose median should not be above a limit."""
    return Figure(name, tuple(values), unit, f"≤ {_short(limit)} {unit}", statistics.median(values) <= limit, note)


def at_least(name: str, values: list[float], unit: str, limit: float, note: str = "") -> Figure:
    """A figure whose median should not be below a limit."""
    return Figure(name, tuple(values), unit, f"≥ {_short(limit)} {unit}", statistics.median(values) >= limit, note)


def in_turns(rounds: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Measure each side once per round, beginning with another one each time; a list of values per side."""
    values: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        for offset in range(len(sides)):
            index = (number + offset) % len(sides)
            values[index].append(sides[index]())
    return values


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
