"""Checks that stop a commit or a pass: lost placements, the deletion budget, and what git says before a write.

**Placements.** When a new commit has removed more than it may, the service goes on with the commit before, and reports
why. The rules are those of `fleet sync`. What was there before is what the service itself has observed. Where that
speaks against the commit, the service reads on the status branch whether another program applied it on purpose, which
`fleet sync` does with `--allow-deletes` and `--allow-rewritten`. A status branch that lacks entries the service has
observed does not count as such a confirmation. At the start only that branch knows what was there, so a remote that
does not answer stops the service until it does.

**Budget.** The deletion budget of a cluster counts by commit: passes are only how the service comes to carry one out. A
pass may be about one stack. What other stacks lose by the same commit counts all the same: what was deleted before, and
what is refused or waits. Nothing is deleted before every stack of the cluster was observed with what the commit wants
of it, so the whole is judged first, also by a process that has just started and knows nothing of the one before it.
This part is pure.

**Before a write.** A pass asks git whether the commit goes on from what the cluster has, and whether it was approved;
the second from a remote that may not answer. In a user's sync that ends the run, with the reason; here it is the error
of the stacks that have something to be written, and the service goes on with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fleet.errors import FleetError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.repository import GitRepository
from fleet.git.status import choose_remote, read_status
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import Desired, Key, StackCluster
from fleet.plan import Plan
from fleet.plan.budget import DeletionBudget, check_budget, lost_objects
from fleet.plan.drift import drift_error
from fleet.sync.result import PlanApproval, Result, WaitingError
from fleet.sync.safety import Placements, check_ancestry, check_removed_placements
from fleet.sync.source import Commit

HINT = "if it is meant, say so once: fleet sync --allow-rewritten"


def check_commit_safety(
    git: GitRepository,
    revision: str,
    evaluation: Evaluation,
    allowance: DeletionBudget,
    *,
    before: tuple[str, Collection[StackCluster]] | None,
    memory: Callable[[], Iterable[StatusRecord]],
) -> None:
    """Raise PolicyError when the commit does not descend from what was applied, or removes more than it may.

    `before` is the commit that was followed until now and its placements; None at the start.
    """
    placed = Placements.of(evaluation)
    problem: PolicyError | None = None
    if before is not None:
        try:
            return _check_history(git, revision, placed, allowance, applied=[before[0]], recorded_pairs=before[1])
        except PolicyError as error:
            problem = error  # a user may have allowed it elsewhere
    try:
        records = list(memory())
    except FleetError as read_error:
        raise problem or read_error from None
    applied = {record.revision for record in records if record.revision}
    if before and problem and not _was_applied_elsewhere(git, revision, applied, before[0]):
        raise problem
    recorded_pairs = {(record.stack, record.cluster) for record in records}
    return _check_history(git, revision, placed, allowance, applied=applied, recorded_pairs=recorded_pairs)


def _was_applied_elsewhere(git: GitRepository, revision: str, applied: Collection[str], before: str) -> bool:
    """Return whether another program applied the commit, or one before it that the service never followed."""
    unknown = git.outside(applied, before)
    return revision in applied or len(git.outside(unknown, revision)) < len(unknown)


def read_status_records(files: Commit) -> list[StatusRecord]:
    """Return the records of the status branch: none if it does not exist yet. Raise the error if it cannot be read."""
    settings, git = files.repository.settings.git, files.git
    remote = choose_remote(files.remotes, settings.remote)
    return list(read_status(git, remote=remote, branch=settings.status_branch).records)


def _check_history(
    git: GitRepository,
    revision: str,
    placed: Placements,
    allowance: DeletionBudget,
    *,
    applied: Iterable[str],
    recorded_pairs: Collection[StackCluster],
) -> None:
    """Raise PolicyError if an applied commit is not in the history of `revision`, or it removed too many placements."""
    unrelated = git.outside([commit for commit in applied if commit != revision], revision)
    if unrelated:
        message = (
            f"{revision[:8]} does not descend from {unrelated[0][:8]}, which was applied: the history was rewritten"
        )
        raise PolicyError(message, hint=HINT)
    check_removed_placements({*recorded_pairs, *placed.pairs}, placed, allowance)


NOTHING = frozenset[Key]()


class PartlySeenError(WaitingError):
    """Error of a pass that would delete, while it is not known yet what the whole cluster would lose."""

    def __init__(self, cluster: str, unseen: Iterable[str]) -> None:
        names = sorted(unseen)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        super().__init__(cluster, "what is taken away", f"stack {names[0]}{more} has to be looked at before")


class _Seen(NamedTuple):
    """Observation of a stack in a cluster, as a pass judged it."""

    wanted: Desired | None  # what the pass compared with; None: no longer placed there
    loses: frozenset[Key]  # objects that are still to be deleted


@dataclass(slots=True)
class DeletionLedger:
    """Deletions of the followed commit, by placement and by cluster."""

    _seen: dict[StackCluster, _Seen] = field(default_factory=dict)
    _let_go: dict[tuple[str, str], dict[str, frozenset[Key]]] = field(default_factory=dict)  # by cluster and revision

    def check(
        self,
        cluster: str,
        plans: Iterable[Plan],
        allowance: DeletionBudget,
        *,
        revision: str,
        wanted: Mapping[str, Desired],
        looked_at: Set[str],
    ) -> None:
        """Raise PolicyError if what the plans of a pass delete may not go; else count it as deleted from here on.

        `wanted` is what the commit wants of every stack of the cluster, `looked_at` the stacks that the pass is about.
        """
        plans = list(plans)
        losses = {plan.stack: lost_objects(plan) for plan in plans}
        for stack in looked_at | losses.keys():
            self._seen[stack, cluster] = _Seen(wanted.get(stack), losses.get(stack, NOTHING))
        if not any(losses.values()):
            return
        unseen = [stack for stack, desired in wanted.items() if not self._was_seen((stack, cluster), desired)]
        if unseen:
            raise PartlySeenError(cluster, unseen)
        let_go = self._let_go.setdefault((cluster, revision), {})
        to_go = {stack: observed.loses for (stack, where), observed in self._seen.items() if where == cluster}
        check_budget(cluster, plans, allowance, _merge_by_stack(to_go, let_go))
        self._let_go[cluster, revision] = _merge_by_stack(let_go, losses)

    def note_deleted(self, pair: StackCluster) -> None:
        """Note that what a placement was to lose is deleted: it does not count for the next commit."""
        if pair in self._seen:
            self._seen[pair] = self._seen[pair]._replace(loses=NOTHING)

    def begin_commit(self, revision: str, stacks: Container[str], clusters: Container[str]) -> None:
        """Begin a commit: forget the stacks and clusters that it does not have, and what other commits deleted."""
        self._seen = {
            pair: observed for pair, observed in self._seen.items() if pair[0] in stacks and pair[1] in clusters
        }
        self._let_go = {key: removed for key, removed in self._let_go.items() if key[1] == revision}

    def _was_seen(self, pair: StackCluster, wanted: Desired) -> bool:
        seen = self._seen.get(pair)
        return seen is not None and seen.wanted == wanted


def _merge_by_stack(
    left: Mapping[str, frozenset[Key]], right: Mapping[str, frozenset[Key]]
) -> dict[str, frozenset[Key]]:
    """Return the union of both sets of each stack."""
    return {stack: left.get(stack, NOTHING) | right.get(stack, NOTHING) for stack in left.keys() | right.keys()}


@dataclass(frozen=True, slots=True)
class ApplyCheck:
    """Check of one commit before a pass writes. `gate` asks for approvals."""

    git: GitRepository
    revision: str
    gate: PlanApproval
    seen: Callable[[StackCluster], bool]  # whether this process observed the stack as a followed commit wants it
    status_record: Callable[[StackCluster], StatusRecord | None]  # the record of the status branch at the start

    def judge(self, planned: Sequence[Result]) -> list[Result]:
        """Return the results, with an error for each that may not be applied."""
        try:
            return self.gate.judge([self._of_this_past(result) for result in planned])
        except FleetError as problem:
            return [replace(result, problem=problem) if result.is_to_do else result for result in planned]

    def check(self, plan: Plan) -> None:
        """Raise PolicyError if the plan of a stack is not approved."""
        self.gate.check(plan)

    def _of_this_past(self, result: Result) -> Result:
        """Return the result with an error if the cluster was given a commit of another history.

        Putting back what git already says is always allowed.
        """
        pair, plan = (result.stack, result.cluster), result.plan
        if not result.is_to_do or plan is None or drift_error(plan) or self.seen(pair):
            return result
        try:
            check_ancestry(self.git, self.revision, [plan])
        except FleetError as problem:
            record = self.status_record(pair)
            is_intended = (
                record is not None
                and record.sync == "Synced"
                and not self.git.outside([record.revision], self.revision)
            )
            return result if is_intended else replace(result, problem=problem)
        return result
