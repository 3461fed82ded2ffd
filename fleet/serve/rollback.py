"""Rollback of a stack by the service itself, where its rollout says so: a commit in git, as `fleet rollback` makes it.

It is a step of git's history and no state: the commit is pushed only onto the very commit that failed in a cluster, so
of two services one is too late, and a process that starts after a kill finds the commit there, recognised by its files
and its last line. Where the service may not push to the branch, or a commit of its own would not be applied (signers,
approvals), it pushes a branch for a user to merge.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fleet.errors import AccessError, ConfigurationError, ConflictError, FleetError
from fleet.evaluate.pool import Pool
from fleet.git.history import HistoryEntry, read_history, select_entries
from fleet.git.merge import propose, set_branch
from fleet.git.repository import GitRepository, Mirror
from fleet.git.status import PublishOutcome
from fleet.git.status_records import clean
from fleet.preview.compare import plan_difference, secrecy_of
from fleet.serve.commits import EvaluatedCommit, FollowedRepository, evaluate_commit
from fleet.sync.result import ObjectHealth
from fleet.sync.rollout.approvals import changes_digest
from fleet.sync.rollout.gates import WELL
from fleet.sync.rollout.rollback import (
    CommitHistory,
    NoRollbackError,
    Rollback,
    RollbackBase,
    RollbackPendingError,
    check_cause,
    check_data,
    find_rollback_base,
    find_way_back,
    is_rollback,
    roll_back_files,
    rollback_message,
    rollback_trailer,
)

MOST = 200  # commits of the past that are considered


@dataclass(frozen=True, slots=True)
class RollbackOutcome:
    """Outcome of a rollback.

    `outcome` is "pushed", "proposed", "stopped", "over" when the cluster has recovered, or "" when there is nothing to
    report.
    """

    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class Illness:
    """Cluster in which a rollout failed. With no `objects` it is not known which of them are unhealthy."""

    cluster: str
    why: str
    objects: tuple[ObjectHealth, ...] = ()


@dataclass(slots=True)
class PendingRollbacks:
    """Stacks whose rollback is due, and the outcomes of rollbacks that were tried."""

    due: set[str] = field(default_factory=set)
    _outcomes: dict[str, tuple[str, RollbackOutcome]] = field(
        default_factory=dict
    )  # by stack, with the commit that it was about

    def ask(self, stack: str, revision: str) -> bool:
        """Ask for a rollback of a stack that failed at this commit; return False if it was asked for before."""
        if stack in self.due or self._outcomes.get(stack, ("", None))[0] == revision:
            return False
        self.due.add(stack)
        return True

    def note(self, stack: str, revision: str, outcome: RollbackOutcome) -> None:
        """Record the outcome of a rollback."""
        self.due.discard(stack)
        if outcome.outcome != "over":  # its rollout may fail again
            self._outcomes[stack] = (revision, outcome)

    def message(self, stack: str, revision: str) -> str:
        """Return what a user should know about the rollback of a stack at this commit; "" if there is nothing."""
        about, outcome = self._outcomes.get(stack, ("", None))
        return outcome.message if outcome is not None and about == revision else ""


@dataclass(frozen=True, slots=True)
class FollowedBranch:
    """Followed branch, with the mirror and the pool to evaluate its commits."""

    origin: FollowedRepository
    mirror: Mirror
    pool: Pool

    def at(self, commit: str, before: EvaluatedCommit | None = None) -> EvaluatedCommit:
        """Evaluate a commit; raise NoRollbackError if that is not possible."""
        try:
            return evaluate_commit(self.origin, self.mirror, commit, before, self.pool)
        except ConfigurationError as problem:
            raise NoRollbackError(f"{commit[:8]} cannot be evaluated: {problem.message}") from problem


def roll_back(
    followed: FollowedBranch,
    current: EvaluatedCommit,
    stack: str,
    illness: Illness,
    *,
    direct: bool,
    lasts: Callable[[], bool] = lambda: True,
) -> RollbackOutcome | None:
    """Roll back a stack that failed at the commit the branch is at; return None if the branch has moved on meanwhile.

    `lasts` observes again, right before the push, whether the rollout still counts as failed. Without `direct`, push a
    branch of its own. What forbids a rollback is in the outcome; every other error is raised.
    """
    git, address = followed.mirror.repository, followed.mirror.address
    try:
        target, commit = _make_commit(followed, current, stack, illness)
    except RollbackPendingError:
        return RollbackOutcome("", "")
    except NoRollbackError as problem:
        return RollbackOutcome("stopped", f"it is not rolled back: {problem.message}")
    if not lasts():
        return RollbackOutcome("over", "")
    where = f"{stack} goes back to {target[:8]} with {commit[:8]}"
    if direct:
        try:
            set_branch(git, address, commit, followed.origin.branch, seen=current.revision)
        except ConflictError:
            return None
        except AccessError:
            pass  # the service may not push to the branch
        else:
            return RollbackOutcome("pushed", f"rolled back: {where}")
    name = f"fleet/rollback-{stack}-{target[:8]}"
    try:
        set_branch(git, address, commit, name, seen=None)
    except ConflictError:  # it was proposed before
        return RollbackOutcome("proposed", f"to roll it back to {target[:8]}, merge the branch {name}")
    except AccessError as problem:
        return RollbackOutcome("stopped", f"it is not rolled back: {problem.message}")
    return RollbackOutcome("proposed", f"to roll it back, merge the branch {name}: {where}")


def _make_commit(followed: FollowedBranch, current: EvaluatedCommit, stack: str, illness: Illness) -> tuple[str, str]:
    """Return the commit to go back to, and the one that does it, which no ref points at yet."""
    git, tip = followed.mirror.repository, current.revision
    base_now = _read_base(current, stack)
    if not base_now.own:
        raise NoRollbackError("its files are read by other stacks too")
    last_message = git.git.run(
        "read the history", "log", "--max-count=1", "--format=%B", "--no-notes", tip, "--", *sorted(base_now.own)
    )
    entries = select_entries(read_history(git, followed.mirror.address, tip), [stack], [])
    target = find_way_back(_read_past(git, entries, base_now, tip), is_rollback=is_rollback(last_message.text, stack))
    before = followed.at(target)
    base_then = _read_base(before, stack)
    _check_way_back(before, current, stack, illness)
    _check_agents(git, entries, before, base_then, stack)
    rollback = _compare_bases(git, base_now, base_then, tip, target)
    if not rollback.changes:
        raise NoRollbackError("what changed is in files that other stacks read too")
    text = rollback_message(stack, target, git.resolve(target).subject, rollback.changes)
    text = f"{text.rstrip()}\n\n{clean(illness.why)}\n\n{rollback_trailer(stack, tip)}"
    commit = propose(git, tip, rollback.changes, text)
    _check_restored(followed.at(commit, current), current, before, stack)
    return target, commit


def _check_way_back(before: EvaluatedCommit, current: EvaluatedCommit, stack: str, illness: Illness) -> None:
    """Raise NoRollbackError unless the change is the cause of the failure and the way back deletes no data.

    A cluster that the stack was not placed on before is left running as it is.
    """
    old = {desired.cluster: desired for desired in before.stacks[stack].desired}
    new = {desired.cluster: desired for desired in current.stacks[stack].desired}
    if illness.cluster in new:
        check_cause(old.get(illness.cluster), new[illness.cluster], illness.objects)
    secrecy = secrecy_of([*old.values(), *new.values()])
    for cluster in sorted(old.keys() & new.keys()):
        try:
            back = plan_difference(new[cluster], old[cluster], secrecy)
        except FleetError as problem:
            raise NoRollbackError(problem.message) from problem
        check_data(back)


def _read_past(
    git: GitRepository, entries: Sequence[HistoryEntry], base: RollbackBase, tip: str
) -> list[CommitHistory]:
    """Return the commits of the past, each with its health and whether its files are as they are now."""
    paths = base.own | base.shared
    return [
        CommitHistory(
            entry.revision,
            all(map(_was_well, entry.outcomes)),
            not any(change.path in paths for change in git.changes(entry.revision, tip)),
        )
        for entry in [entry for entry in entries if entry.in_history][:MOST]
    ]


def _was_well(outcome: PublishOutcome) -> bool:
    """Return whether a recorded outcome is synced and healthy."""
    return outcome.sync == "Synced" and outcome.health in WELL


def _check_agents(
    git: GitRepository, entries: Sequence[HistoryEntry], before: EvaluatedCommit, base: RollbackBase, stack: str
) -> None:
    """Raise NoRollbackError unless every agent has reported the stack as healthy with the files it would go back to.

    The reports have to be in these very notes: of an agent that reports to a repository of its own, the health there is
    not known. An agent that passed over the commit itself, as agents do when commits come fast, has reported on an
    earlier one with the same files.
    """
    pull = {cluster.name for cluster in before.evaluation.clusters if cluster.pull}
    unreported, paths = pull.intersection(before.stacks[stack].clusters), base.own | base.shared
    past = itertools.dropwhile(lambda entry: entry.revision != before.revision, entries)
    for entry in itertools.islice(filter(lambda entry: entry.in_history, past), MOST):
        if not unreported or any(change.path in paths for change in git.changes(entry.revision, before.revision)):
            break
        healthy = {outcome.cluster: _was_well(outcome) for outcome in entry.outcomes if outcome.cluster in unreported}
        if not all(healthy.values()):
            raise NoRollbackError(f"there is nothing to go back to: it was not well at {entry.revision[:8]} either")
        unreported -= healthy.keys()
    if unreported:
        raise NoRollbackError(
            f"the status on this remote does not say how {min(unreported)} was with the revision to go back to"
        )


def _read_base(commit: EvaluatedCommit, stack: str) -> RollbackBase:
    """Return which files a stack is made from; raise NoRollbackError if they cannot be told from another stack's."""
    try:
        return find_rollback_base(
            commit.evaluation, stack, frozenset(cluster.source.file for cluster in commit.evaluation.clusters)
        )
    except FleetError as problem:  # its file declares another stack, too
        raise NoRollbackError(problem.message) from problem


def _compare_bases(
    git: GitRepository, base_now: RollbackBase, base_then: RollbackBase, tip: str, target: str
) -> Rollback:
    """Return the changes of files that lead back to the target."""
    paths = base_now.own | base_now.shared | base_then.own | base_then.shared
    files_now, files_then = (git.tree(revision).read_all(matching=paths.__contains__) for revision in (tip, target))
    return roll_back_files(base_now, base_then, files_now, files_then)


def _check_restored(after: EvaluatedCommit, current: EvaluatedCommit, before: EvaluatedCommit, stack: str) -> None:
    """Raise NoRollbackError unless the commit brings this stack's earlier state back, and changes no other stack."""
    if after.stacks.keys() != current.stacks.keys() or after.evaluation.clusters != current.evaluation.clusters:
        raise NoRollbackError("its files alone do not make it what it was")
    for name, result in after.stacks.items():
        expected = before.stacks[name] if name == stack else current.stacks[name]
        if changes_digest(result) != changes_digest(expected):
            raise NoRollbackError("its files alone do not make it what it was")
