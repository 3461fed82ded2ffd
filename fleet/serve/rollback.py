"""A stack taken back by the service itself, where its rollout says so: a commit in git, as `fleet rollback` makes it.

It is a step of git's history and no state: the commit is pushed only onto the very commit that made a cluster ill, so
of two services one is too late, and whoever comes after a kill finds it there, known by its files and its last line.
Where the service may not push to the branch, or a commit of its own would not be applied (signers, approvals), it is
a branch that a person merges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fleet.errors import AccessError, ConfigurationError, ConflictError, FleetError
from fleet.evaluate.pool import Pool
from fleet.git.history import HistoryEntry, read_history, select_entries
from fleet.git.merge import propose, set_branch
from fleet.git.repository import Mirror, Repository
from fleet.git.status import Outcome
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

MOST = 200  # commits of the past that are looked at


@dataclass(frozen=True, slots=True)
class RollbackOutcome:
    """What came of it: `outcome` is "pushed", "proposed", "stopped", "over" when the illness is, or "" when there is
    nothing to say."""

    outcome: str
    words: str


@dataclass(frozen=True, slots=True)
class Illness:
    """A cluster in which a rollout failed. Without `objects` it is not known which of them are ill."""

    cluster: str
    why: str
    objects: tuple[ObjectHealth, ...] = ()


@dataclass(slots=True)
class PendingRollbacks:
    """The stacks that are to be looked at for it, and what became of those that were."""

    due: set[str] = field(default_factory=set)
    _made: dict[str, tuple[str, RollbackOutcome]] = field(
        default_factory=dict
    )  # stack → with the commit that it was about

    def ask(self, stack: str, revision: str) -> bool:
        """A cluster is ill of a commit. True when that is news."""
        if stack in self.due or self._made.get(stack, ("", None))[0] == revision:
            return False
        self.due.add(stack)
        return True

    def note(self, stack: str, revision: str, made: RollbackOutcome) -> None:
        self.due.discard(stack)
        if made.outcome != "over":  # it may fall ill again
            self._made[stack] = (revision, made)

    def words(self, stack: str, revision: str) -> str:
        """What a person should know beside how the stack is; "" when there is nothing."""
        about, made = self._made.get(stack, ("", None))
        return made.words if made is not None and about == revision else ""


@dataclass(frozen=True, slots=True)
class FollowedBranch:
    """The repository, as whoever follows it has it."""

    origin: FollowedRepository
    mirror: Mirror
    pool: Pool

    def at(self, commit: str, before: EvaluatedCommit | None = None) -> EvaluatedCommit:
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
    """Make it, for a stack that is ill of the commit that the branch is at; None: the branch has moved on meanwhile.

    `lasts` looks again, right before the push, whether it is still ill. Not `direct`: as a branch of its own. What
    speaks against it is told, and everything else raised.
    """
    git, address = followed.mirror.repository, followed.mirror.address
    try:
        target, commit = _commit(followed, current, stack, illness)
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
            pass  # the branch is not for the service to push to
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


def _commit(followed: FollowedBranch, current: EvaluatedCommit, stack: str, illness: Illness) -> tuple[str, str]:
    """The commit to go back to, and the one that does it, which nothing points at yet."""
    git, tip = followed.mirror.repository, current.revision
    here = _ground(current, stack)
    if not here.own:
        raise NoRollbackError("its files are read by other stacks too")
    said = git.git.run(
        "read the history", "log", "--max-count=1", "--format=%B", "--no-notes", tip, "--", *sorted(here.own)
    )
    entries = select_entries(read_history(git, followed.mirror.address, tip), [stack], [])
    target = find_way_back(_past(git, entries, here, tip), is_rollback=is_rollback(said.text, stack))
    before = followed.at(target)
    there = _ground(before, stack)
    _check_way(before, current, stack, illness)
    _check_agents(git, entries, before, there, stack)
    found = _between(git, here, there, tip, target)
    if not found.changes:
        raise NoRollbackError("what changed is in files that other stacks read too")
    text = rollback_message(stack, target, git.resolve(target).subject, found.changes)
    text = f"{text.rstrip()}\n\n{clean(illness.why)}\n\n{rollback_trailer(stack, tip)}"
    commit = propose(git, tip, found.changes, text)
    _check(followed.at(commit, current), current, before, stack)
    return target, commit


def _check_way(before: EvaluatedCommit, current: EvaluatedCommit, stack: str, illness: Illness) -> None:
    """The change is why the cluster is ill, and no data goes with the way back. Where it was not placed before, what is
    there is left running."""
    old = {one.cluster: one for one in before.stacks[stack].desired}
    new = {one.cluster: one for one in current.stacks[stack].desired}
    if illness.cluster in new:
        check_cause(old.get(illness.cluster), new[illness.cluster], illness.objects)
    secrecy = secrecy_of([*old.values(), *new.values()])
    for cluster in sorted(old.keys() & new.keys()):
        try:
            back = plan_difference(new[cluster], old[cluster], secrecy)
        except FleetError as problem:
            raise NoRollbackError(problem.message) from problem
        check_data(back)


def _past(git: Repository, entries: Sequence[HistoryEntry], here: RollbackBase, tip: str) -> list[CommitHistory]:
    paths = here.own | here.shared
    return [
        CommitHistory(
            one.revision,
            all(map(_was_well, one.outcomes)),
            not any(change.path in paths for change in git.changes(one.revision, tip)),
        )
        for one in [one for one in entries if one.in_history][:MOST]
    ]


def _was_well(one: Outcome) -> bool:
    return one.sync == "Synced" and one.health in WELL


def _check_agents(
    git: Repository, entries: Sequence[HistoryEntry], before: EvaluatedCommit, there: RollbackBase, stack: str
) -> None:
    """Every agent has told, in these very notes, that the stack was well with the files that it would go back to.

    One that reports to a repository of its own has not: how it was there is not known. One that passed over the commit
    itself, as agents do when commits come fast, has told of an earlier one with the same files.
    """
    pull = {one.name for one in before.evaluation.clusters if one.pull}
    left, paths = pull.intersection(before.stacks[stack].clusters), there.own | there.shared
    past = itertools.dropwhile(lambda one: one.revision != before.revision, entries)
    for one in itertools.islice(filter(lambda one: one.in_history, past), MOST):
        if not left or any(change.path in paths for change in git.changes(one.revision, before.revision)):
            break
        said = {each.cluster: _was_well(each) for each in one.outcomes if each.cluster in left}
        if not all(said.values()):
            raise NoRollbackError(f"there is nothing to go back to: it was not well at {one.revision[:8]} either")
        left -= said.keys()
    if left:
        raise NoRollbackError(f"nobody told on this remote how {min(left)} was with what it would go back to")


def _ground(found: EvaluatedCommit, stack: str) -> RollbackBase:
    try:
        return find_rollback_base(
            found.evaluation, stack, frozenset(one.source.file for one in found.evaluation.clusters)
        )
    except FleetError as problem:  # its file has another stack in it
        raise NoRollbackError(problem.message) from problem


def _between(git: Repository, here: RollbackBase, there: RollbackBase, tip: str, target: str) -> Rollback:
    paths = here.own | here.shared | there.own | there.shared
    now, then = (git.tree(one).read_all(matching=paths.__contains__) for one in (tip, target))
    return roll_back_files(here, there, now, then)


def _check(after: EvaluatedCommit, current: EvaluatedCommit, before: EvaluatedCommit, stack: str) -> None:
    """It wants of this stack what was well, and of every other what is wanted now."""
    if after.stacks.keys() != current.stacks.keys() or after.evaluation.clusters != current.evaluation.clusters:
        raise NoRollbackError("its files alone do not make it what it was")
    for name, one in after.stacks.items():
        other = before.stacks[name] if name == stack else current.stacks[name]
        if changes_digest(one) != changes_digest(other):
            raise NoRollbackError("its files alone do not make it what it was")
