"""What became of a plan, as data: a result per step, and the inventory as it now is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fleet.errors import FleetError
from fleet.kube.inventory import Stored
from fleet.plan.step import Step


class State(StrEnum):
    DONE = "done"
    UNCHANGED = "unchanged"  # nothing had to be sent
    CONFLICT = "conflict"  # belongs to somebody else; untouched
    FAILED = "failed"
    SKIPPED = "skipped"  # something before it was not done
    PENDING = "pending"  # a delete that was accepted; the object is still going


@dataclass(frozen=True, slots=True)
class Result:
    step: Step
    state: State
    uid: str = ""
    version: str = ""  # the resourceVersion that the object has by it; "" where it is not certainly as it was applied
    error: FleetError | None = None
    reason: str = ""  # of a skip or a wait
    certain: bool = True  # False: no answer came, so it may have been done

    @property
    def ok(self) -> bool:
        return self.state in (State.DONE, State.UNCHANGED)


@dataclass(frozen=True, slots=True)
class Outcome:
    results: tuple[Result, ...]
    stored: Stored

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    def having(self, *states: State) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.state in states)

    @property
    def error(self) -> FleetError | None:
        """The first failure, for an exit code."""
        return next((result.error for result in self.results if result.error), None)
