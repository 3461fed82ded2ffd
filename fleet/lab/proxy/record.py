"""What came by, as data."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.lab.proxy.call import Call


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request, once its answer began or it was certain that there would be none."""

    call: Call
    status: int  # of the answer; 0: there was none
    seconds: float  # from the request to the beginning of the answer
    acts: tuple[str, ...] = ()  # what the plan did to it
