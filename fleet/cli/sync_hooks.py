"""Hooks of a run by a user at a terminal or in CI: what is printed, what is asked, and who approves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleet.cli.output import print_message
from fleet.sync.commit import CommitHooks

if TYPE_CHECKING:
    from fleet.evaluate.result import Evaluation
    from fleet.git.status_records import StatusRecord
    from fleet.objects.desired import StackCluster
    from fleet.sync.progress import Progress
    from fleet.sync.result import PlanApproval
    from fleet.sync.rollout.gates import RolloutState
    from fleet.sync.run import Run
    from fleet.sync.source import Commit


class PlanningHooks(CommitHooks):
    """Hooks of a command that only plans: a table at a terminal, and no lines elsewhere."""

    def __init__(self, form: str) -> None:
        self.form = form

    @contextmanager
    def show_progress(self) -> Iterator[Progress]:
        from fleet.sync.progress import show_progress

        with show_progress(quiet=self.form != "text", lines=False) as progress:
            yield progress


class UserHooks(CommitHooks):
    """Hooks of `fleet sync`; `confirm` raises an error if the user does not want what is planned."""

    def __init__(
        self,
        form: str,
        confirm: Callable[[Run], None],
        *,
        show_unchanged: bool = False,
        ignore_rollout: bool = False,
        require_approved: bool = False,
    ) -> None:
        self._form = form
        self._confirm = confirm
        self._show_unchanged = show_unchanged
        self._ignore_rollout = ignore_rollout
        self._require_approved = require_approved
        self._progress: Progress | None = None

    @contextmanager
    def show_progress(self) -> Iterator[Progress]:
        from fleet.sync.progress import show_progress

        with show_progress(quiet=self._form != "text") as self._progress:
            yield self._progress

    def tell(self, remark: str) -> None:
        print_message(remark)

    def make_approval_check(self, commit: Commit, evaluation: Evaluation) -> PlanApproval:
        from fleet.approval import gate

        return gate.ApprovalCheck(commit, evaluation, required=self._require_approved)

    def read_agent_states(
        self, commit: Commit, placements: Collection[StackCluster], records: Mapping[StackCluster, StatusRecord]
    ) -> Mapping[StackCluster, RolloutState]:
        from fleet.bundle.publish import read_agent_states

        return read_agent_states(commit, placements, records)

    def show_plan(self, planned: Run, evaluation: Evaluation) -> None:
        from fleet.cli.plans import view_plan
        from fleet.sync.rollout.order import describe_rollouts

        if self._form != "text" or self._progress is None:
            return
        branches = [result.branch for result in planned.results]
        self._progress.say(view_plan(branches, "text", unchanged=self._show_unchanged))
        for line in describe_rollouts(evaluation.stacks, planned.results):
            print_message(line + (": ignored, as --ignore-rollout says" if self._ignore_rollout else ""))

    def confirm(self, planned: Run) -> None:
        self._confirm(planned)
