"""Checks on the whole run before the first write: has git lost more than it should, was its history rewritten?

Removed placements are stacks, clusters and placements that git had in the last sync and no longer has. None of them is
ever deleted for that reason. But many at once are seldom meant: an emptied directory, a wrong repository, mistyped
labels. So there is a budget, and beyond it the run stops before anything is written.

A commit has to descend from what the clusters have; rewritten history is refused unless the user allows it. Every
inventory has the commit that last changed its stack. A commit that would change the stack again has that one in its
history. If it has not, another user replaced the history, and what would be undone was never reviewed as a change.

The status branch has the placements that the last sync found in git. It is read as this clone last fetched it, which
costs nothing, and fetched again where something is taken away or is missing: neither an old copy nor a remote that does
not answer may decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fleet.errors import ConfigurationError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.repository import HISTORY_HINT, GitRepository, with_history
from fleet.git.status import choose_remote, read_placements
from fleet.objects.desired import StackCluster
from fleet.plan import Plan
from fleet.plan.budget import DeletionBudget, count_lost_objects
from fleet.sync.run import Run
from fleet.sync.source import Commit
from fleet.text import count_noun

MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Placements:
    """Placements that git has now; not `complete` if the user asked for some stacks only."""

    stacks: frozenset[str]
    clusters: frozenset[str]
    pairs: frozenset[StackCluster]
    complete: bool = True

    @classmethod
    def of(cls, evaluation: Evaluation, stacks_asked: Collection[str] = ()) -> Placements:
        """Return the placements of an evaluation; `stacks_asked` are the stacks that the user named, if any."""
        return cls(
            frozenset(stack.name for stack in evaluation.stacks),
            frozenset(cluster.name for cluster in evaluation.clusters),
            frozenset((stack.name, cluster) for stack in evaluation.stacks for cluster in stack.clusters),
            complete=not stacks_asked,
        )


def removed_placements(recorded_pairs: Iterable[StackCluster], placed: Placements) -> frozenset[StackCluster]:
    """Return the placements of the last sync that git no longer has."""
    return frozenset(
        pair for pair in recorded_pairs if pair not in placed.pairs and (placed.complete or pair[0] in placed.stacks)
    )


def check_removed_placements(
    recorded_pairs: Collection[StackCluster], placed: Placements, allowance: DeletionBudget
) -> None:
    """Raise PolicyError if more has left git than the budget allows; `recorded_pairs` are those of the last sync."""
    gone = removed_placements(recorded_pairs, placed)
    if not gone:
        return
    if not placed.stacks and allowance.share < 1.0:
        raise _budget_error(
            f"no stack is left in git, and {_list_names(stack for stack, _ in recorded_pairs)} had been synced", gone
        )
    stacks, clusters = {stack for stack, _ in recorded_pairs}, {cluster for _, cluster in recorded_pairs}
    _check_share(
        "stacks have left git", stacks - placed.stacks if placed.complete else (), len(stacks), gone, allowance
    )
    _check_share("clusters have left git", {c for _, c in gone} - placed.clusters, len(clusters), gone, allowance)
    for stack in sorted(placed.stacks & stacks):
        former = {cluster for name, cluster in recorded_pairs if name == stack}
        left = {cluster for name, cluster in gone if name == stack} & placed.clusters
        _check_share(f"clusters are no longer chosen by {stack}", left, len(former), gone, allowance)
    if len(gone) > allowance.deletions:
        have = "has" if len(gone) == 1 else "have"
        placements = count_noun(len(gone), "placement")
        raise _budget_error(f"{placements} {have} left git, the budget is {allowance.deletions}", gone)


def _check_share(
    what: str, left: Collection[str], had: int, gone: Collection[StackCluster], allowance: DeletionBudget
) -> None:
    """Raise PolicyError if more of these have left than their share allows."""
    if len(left) > allowance.share_of(had):
        raise _budget_error(
            f"{len(left)} of {had} {what} ({_list_names(left)}), the budget is {allowance.share_of(had)}", gone
        )


def _budget_error(message: str, gone: Collection[StackCluster]) -> PolicyError:
    """Return the error for placements that have left git beyond the budget."""
    return PolicyError(
        f"{message}; nothing is changed",
        hint=f"is it the right repository and commit? If it is meant, allow it once with --allow-deletes {len(gone)}: "
        "what has left is forgotten and left running",
        field="budget.share",
    )


def _list_names(names: Iterable[str]) -> str:
    """Return the names in order, the first MOST_NAMES of them in full."""
    unique = sorted(set(names))
    more = f" and {len(unique) - MOST_NAMES} more" if len(unique) > MOST_NAMES else ""
    return ", ".join(unique[:MOST_NAMES]) + more


def applied_revisions(plans: Iterable[Plan]) -> dict[str, Plan]:
    """Return the commits on which the plans build, each with a plan that would change what that commit did."""
    return {
        plan.inventory.revision: plan
        for plan in plans
        if not plan.empty and plan.inventory.revision and plan.inventory.repository == plan.repository
    }


def check_ancestry(
    git: GitRepository,
    revision: str,
    plans: Iterable[Plan],
    *,
    back: bool = False,
    deepened: Callable[[GitRepository], GitRepository] = lambda git: git,
) -> None:
    """Raise PolicyError if the commit does not descend from those applied before it.

    With `back`, the user named an earlier commit: it may be an ancestor of what was applied.

    A shallow clone may lack the history that would prove it. It is `deepened` then; raise ConfigurationError if that is
    not enough.
    """
    applied = applied_revisions(plans)
    applied.pop(revision, None)
    if git.outside(applied, revision):
        git = deepened(git)
    for base in git.outside(applied, revision):
        if back and not git.outside([revision], base):
            continue
        plan = applied[base]
        if git.shallow:
            raise ConfigurationError(
                f"whether {revision[:8]} descends from {base[:8]}, which was applied to {plan.stack} on {plan.cluster},"
                " cannot be told: this clone is shallow",
                hint=HISTORY_HINT,
            )
        raise PolicyError(
            f"{revision[:8]} does not descend from {base[:8]}, which was applied to {plan.stack} on {plan.cluster}: "
            "the history was rewritten",
            hint="was it pushed by force, or is this another branch? If it is meant, say --allow-rewritten once",
        )


def check_run(
    commit: Commit,
    evaluation: Evaluation,
    planned: Run,
    allowance: DeletionBudget,
    *,
    stacks: Collection[str] = (),
    remembered: bool = True,
    back: bool = False,
    rewritten: bool = False,
) -> None:
    """Raise the error that stops the run, if any.

    Not `remembered`: the status branch is neither read nor written. `rewritten`: the user allows a rewritten history.
    """
    plans = [result.plan for result in planned.results if result.plan and not result.problem]
    if not rewritten:
        check_ancestry(commit.git, commit.revision, plans, back=back, deepened=lambda git: _deepen_history(commit, git))
    placed = Placements.of(evaluation, stacks)
    placements = {*placed.pairs, *((plan.stack, plan.cluster) for plan in plans)}
    check_removed_placements(placements if placed.stacks else {*placements, *planned.orphans}, placed, allowance)
    if not remembered:
        return
    fresh = any(count_lost_objects(plan) for plan in plans)
    known_placements = _read_known_placements(commit, fresh=fresh)
    try:
        check_removed_placements({*(known_placements or ()), *placements}, placed, allowance)
    except PolicyError:
        if fresh:
            raise
        check_removed_placements({*(_read_known_placements(commit, fresh=True) or ()), *placements}, placed, allowance)


def _deepen_history(commit: Commit, git: GitRepository) -> GitRepository:
    """Return the repository with the whole history of the synced branch, fetched from its remote."""
    settings = commit.repository.settings.git
    return with_history(git, choose_remote(commit.remotes, settings.remote), settings.branch)


def _read_known_placements(commit: Commit, *, fresh: bool) -> frozenset[StackCluster] | None:
    """Return the placements on the status branch: of this clone if it has them and not `fresh`, else the remote's."""
    settings, git = commit.repository.settings.git, commit.git
    remote = choose_remote(commit.remotes, settings.remote)
    placements = None if fresh else read_placements(git, remote, branch=settings.status_branch, fresh=False)
    return placements if placements is not None else read_placements(git, remote, branch=settings.status_branch)
