"""Who is asked between the plan and the first write; `fleet.approve` has the one that asks for approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fleet.plan import Plan
from fleet.sync.outcome import Result


class Gate(Protocol):
    def judge(self, planned: Sequence[Result]) -> list[Result]:
        """The same results, with a problem where something must not be done. It may take its time, and reads only."""

    def check(self, plan: Plan) -> None:
        """Raise if a plan, made again under the Lease, must not be carried out."""
