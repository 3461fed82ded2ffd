"""What a pass asks git before it writes: does the commit go on from what the cluster has, and was it approved?

Both are read from git, the second from a remote that may not answer. For a person's sync that ends the run, with the
reason; here it is the problem of the stacks that have something to be written, and all else goes on being looked after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fleet.errors import FleetError
from fleet.git.repository import Repository
from fleet.git.status import Record
from fleet.model.desired import StackCluster
from fleet.plan import Plan
from fleet.sync.drift import only_drift
from fleet.sync.gate import Gate
from fleet.sync.lineage import check_lineage
from fleet.sync.outcome import Result


@dataclass(frozen=True, slots=True)
class Asking:
    """For one commit. `gate` asks for approvals."""

    git: Repository
    revision: str
    gate: Gate
    seen: Callable[
        [StackCluster], bool
    ]  # whether this process saw the stack there as a commit that it followed wants it
    told: Callable[[StackCluster], Record | None]  # what the status branch said at the start

    def judge(self, planned: Sequence[Result]) -> list[Result]:
        try:
            return self.gate.judge([self._of_this_past(one) for one in planned])
        except FleetError as problem:
            return [replace(one, problem=problem) if one.is_to_do else one for one in planned]

    def check(self, plan: Plan) -> None:
        self.gate.check(plan)

    def _of_this_past(self, one: Result) -> Result:
        """With the problem that the cluster has another past; to put back what git said already is none."""
        pair, made = (one.stack, one.cluster), one.plan
        if not one.is_to_do or made is None or only_drift(made) or self.seen(pair):
            return one
        try:
            check_lineage(self.git, self.revision, [made])
        except FleetError as problem:
            said = self.told(pair)
            meant = said is not None and said.sync == "Synced" and not self.git.outside([said.revision], self.revision)
            return one if meant else replace(one, problem=problem)
        return one
