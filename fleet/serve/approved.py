"""Approvals, as a pass of the service asks for them.

They are read from a remote that may not answer. For a person's sync that ends the run, with the reason; here it is the
problem of the stacks that have something to be written, and the rest goes on being looked after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleet.errors import FleetError
from fleet.plan import Plan
from fleet.sync.gate import Gate
from fleet.sync.outcome import Result


@dataclass(frozen=True, slots=True)
class Approved:
    gate: Gate

    def judge(self, planned: Sequence[Result]) -> list[Result]:
        try:
            return self.gate.judge(planned)
        except FleetError as problem:
            return [replace(one, problem=problem) if one.is_to_do else one for one in planned]

    def check(self, plan: Plan) -> None:
        self.gate.check(plan)
