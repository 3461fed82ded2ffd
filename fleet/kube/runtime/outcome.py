"""What a pass can come to, and what follows from each: the one place that decides it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fleet.errors import ConflictError
from fleet.kube.runtime.guard import NotLeadingError


@dataclass(frozen=True, slots=True)
class Result:
    """A pass that went well. With `requeue_after`, there is another in so many seconds (0: at once)."""

    requeue_after: float | None = None


class TerminalError(Exception):
    """Trying again cannot help until the object changes: there is no retry."""


class Then(Enum):
    WAIT = "until something changes"
    AFTER = "again after the time it asked for"
    BACK_OFF = "again, later with each failure"
    DROP = "never: another process leads"


@dataclass(frozen=True, slots=True)
class Verdict:
    label: str  # of controller_runtime_reconcile_total
    then: Then
    after: float = 0.0
    says: str = ""  # for the log; "" is not worth a line


def judge(ended: Result | BaseException | None, seconds: float) -> Verdict:
    """`ended` is what a pass returned or raised, `seconds` the time it was given."""
    match ended:
        case None | Result(requeue_after=None):
            return Verdict("success", Then.WAIT)
        case Result(requeue_after=float() | int() as after):
            return Verdict("requeue_after", Then.AFTER, after=after)
        case NotLeadingError():
            return Verdict("error", Then.DROP)
        case TerminalError():
            return Verdict("error", Then.WAIT, says=f"will not be tried again until it changes: {ended}")
        case TimeoutError():
            return Verdict("error", Then.BACK_OFF, says=f"did not end within {seconds:g} s")
        case ConflictError():
            return Verdict("error", Then.BACK_OFF, says=f"somebody else was quicker: {ended}")
        case _:
            return Verdict("error", Then.BACK_OFF, says=str(ended) or type(ended).__name__)
