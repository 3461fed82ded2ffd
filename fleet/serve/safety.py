"""What stops a commit or a pass.

Whether a new commit has lost more than it should: then the service goes on with the one before, and says why.

The rules are those of `fleet sync`. What was there before is what the service itself has seen; where that speaks
against the commit, the status branch is asked whether somebody else has gone that way, which `fleet sync` does if it is
told to (`--allow-deletes`, `--allow-rewritten`). That it does not know what the service has seen is no such word. At
the start only that branch knows, so a remote that does not tell it stops the service until it does.

The deletion budget of a cluster, by commit: passes are only how the service comes to carry one out. Pure.

A pass may be about one stack. What the others lose by the same commit counts all the same: what was let go before,
and what is refused or waits. Nothing goes before every stack of the cluster was looked at with what the commit wants
of it, so the whole is judged first, also by a process that has just begun and knows nothing of the one before it.

What a pass asks git before it writes: does the commit go on from what the cluster has, and was it approved?

Both are read from git, the second from a remote that may not answer. For a person's sync that ends the run, with the
reason; here it is the problem of the stacks that have something to be written, and all else goes on being looked after.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fleet.errors import FleetError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.repository import Repository
from fleet.git.status import choose_remote, read_status
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import Desired, Key, StackCluster
from fleet.plan import Plan
from fleet.plan.budget import DeletionBudget, check_budget, lost_objects
from fleet.plan.drift import drift_error
from fleet.sync.result import ApprovalCheck, Result, WaitingError
from fleet.sync.safety import Placements, check_ancestry, check_removed_placements
from fleet.sync.source import Checkout

HINT = "if it is meant, say so once: fleet sync --allow-rewritten"


def check_commit_safety(
    git: Repository,
    revision: str,
    evaluation: Evaluation,
    allowance: DeletionBudget,
    *,
    before: tuple[str, Collection[StackCluster]] | None,
    memory: Callable[[], Iterable[StatusRecord]],
) -> None:
    """Raise PolicyError when the commit does not go on from what was applied, or too much has left git with it.

    `before` is the commit that was followed until now and its placements; None at the start.
    """
    placed = Placements.of(evaluation)
    problem: PolicyError | None = None
    if before is not None:
        try:
            return _check(git, revision, placed, allowance, applied=[before[0]], known=before[1])
        except PolicyError as found:
            problem = found  # somebody may have said that it is meant
    try:
        records = list(memory())
    except FleetError as silence:
        raise problem or silence from None
    applied = {one.revision for one in records if one.revision}
    if before and problem and not _was_gone(git, revision, applied, before[0]):
        raise problem
    return _check(
        git, revision, placed, allowance, applied=applied, known={(one.stack, one.cluster) for one in records}
    )


def _was_gone(git: Repository, revision: str, applied: Collection[str], before: str) -> bool:
    """Whether somebody applied the commit itself, or one on the way to it that the service never followed."""
    unknown = git.outside(applied, before)
    return revision in applied or len(git.outside(unknown, revision)) < len(unknown)


def read_status_records(files: Checkout) -> list[StatusRecord]:
    """What the status branch says. One that is not there yet says nothing; one that cannot be read is an error."""
    settings, git = files.repository.settings.git, files.git
    assert git is not None  # noqa: S101 - it is of a mirror
    remote = choose_remote(files.remotes, settings.remote)
    return list(read_status(git, remote=remote, branch=settings.status_branch).records)


def _check(
    git: Repository,
    revision: str,
    placed: Placements,
    allowance: DeletionBudget,
    *,
    applied: Iterable[str],
    known: Collection[StackCluster],
) -> None:
    strange = git.outside([one for one in applied if one != revision], revision)
    if strange:
        message = f"{revision[:8]} does not go on from {strange[0][:8]}, which was applied: the history was rewritten"
        raise PolicyError(message, hint=HINT)
    check_removed_placements({*known, *placed.pairs}, placed, allowance)


NOTHING = frozenset[Key]()


class PartlySeenError(WaitingError):
    """Nobody knows yet what the whole cluster would lose."""

    def __init__(self, cluster: str, unseen: Iterable[str]) -> None:
        names = sorted(unseen)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        super().__init__(cluster, "what is taken away", f"stack {names[0]}{more} has to be looked at before")


class _Seen(NamedTuple):
    wanted: Desired | None  # with what it was looked at; None: no longer placed there
    loses: frozenset[Key]  # what is still to go


@dataclass(slots=True)
class DeletionLedger:
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
        """Raise PolicyError if what the plans of a pass take away may not go; else it counts as gone from here on.

        `wanted` is what the commit wants of every stack of the cluster, `looked_at` those that the pass is about.
        """
        plans = list(plans)
        losses = {one.stack: lost_objects(one) for one in plans}
        for stack in looked_at | losses.keys():
            self._seen[stack, cluster] = _Seen(wanted.get(stack), losses.get(stack, NOTHING))
        if not any(losses.values()):
            return
        unseen = [stack for stack, one in wanted.items() if not self._was_seen((stack, cluster), one)]
        if unseen:
            raise PartlySeenError(cluster, unseen)
        let_go = self._let_go.setdefault((cluster, revision), {})
        to_go = {stack: one.loses for (stack, where), one in self._seen.items() if where == cluster}
        check_budget(cluster, plans, allowance, _either(to_go, let_go))
        self._let_go[cluster, revision] = _either(let_go, losses)

    def done(self, pair: StackCluster) -> None:
        """What was to go has gone: the next commit has nothing to do with it."""
        if pair in self._seen:
            self._seen[pair] = self._seen[pair]._replace(loses=NOTHING)

    def begins(self, revision: str, stacks: Container[str], clusters: Container[str]) -> None:
        """A commit, and whom it knows: nobody looks at the rest any more."""
        self._seen = {pair: one for pair, one in self._seen.items() if pair[0] in stacks and pair[1] in clusters}
        self._let_go = {of: one for of, one in self._let_go.items() if of[1] == revision}

    def _was_seen(self, pair: StackCluster, wanted: Desired) -> bool:
        seen = self._seen.get(pair)
        return seen is not None and seen.wanted == wanted


def _either(one: Mapping[str, frozenset[Key]], other: Mapping[str, frozenset[Key]]) -> dict[str, frozenset[Key]]:
    return {stack: one.get(stack, NOTHING) | other.get(stack, NOTHING) for stack in one.keys() | other.keys()}


@dataclass(frozen=True, slots=True)
class ApplyCheck:
    """For one commit. `gate` asks for approvals."""

    git: Repository
    revision: str
    gate: ApprovalCheck
    seen: Callable[
        [StackCluster], bool
    ]  # whether this process saw the stack there as a commit that it followed wants it
    told: Callable[[StackCluster], StatusRecord | None]  # what the status branch said at the start

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
        if not one.is_to_do or made is None or drift_error(made) or self.seen(pair):
            return one
        try:
            check_ancestry(self.git, self.revision, [made])
        except FleetError as problem:
            said = self.told(pair)
            meant = said is not None and said.sync == "Synced" and not self.git.outside([said.revision], self.revision)
            return one if meant else replace(one, problem=problem)
        return one
