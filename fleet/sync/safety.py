"""Checks on the whole run before the first write.

What git no longer speaks of: stacks, clusters and placements that were there in the last sync. Pure.

Nothing of it is ever deleted, but much of it at once is seldom meant: an emptied directory, a repository that is not
the one it was, labels that were mistyped. So it has a budget, and beyond it the run stops before anything is written.

Whether a commit goes on from what the clusters have: a history that was rewritten is refused, unless told.

Every inventory has the commit that last changed its stack. A commit that would change the stack again has that one in
its history; if not, somebody replaced the past, and what would be undone was never looked at as a change.

What is looked at once all plans are made and before anything is written: has git lost more than it should?

The status branch remembers what the last sync found in git. It is read as this clone last saw it, which costs nothing,
and anew where something is taken away or is missing: neither an old memory nor a remote that is silent may decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fleet.errors import ConfigurationError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.repository import HISTORY_HINT, Repository, with_history
from fleet.git.status import choose_remote, read_placements
from fleet.objects.desired import StackCluster
from fleet.plan import Plan
from fleet.plan.budget import DeletionBudget, count_lost_objects
from fleet.sync.run import Run
from fleet.sync.source import Checkout
from fleet.text import count_noun

MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Placements:
    """What git speaks of now; not `complete` when only some stacks were asked for."""

    stacks: frozenset[str]
    clusters: frozenset[str]
    pairs: frozenset[StackCluster]
    complete: bool = True

    @classmethod
    def of(cls, evaluation: Evaluation, stacks_asked: Collection[str] = ()) -> Placements:
        return cls(
            frozenset(one.name for one in evaluation.stacks),
            frozenset(one.name for one in evaluation.clusters),
            frozenset((one.name, cluster) for one in evaluation.stacks for cluster in one.clusters),
            complete=not stacks_asked,
        )


def removed_placements(known: Iterable[StackCluster], placed: Placements) -> frozenset[StackCluster]:
    """The pairs that were, and of which git does not speak any more."""
    return frozenset(
        pair for pair in known if pair not in placed.pairs and (placed.complete or pair[0] in placed.stacks)
    )


def check_removed_placements(known: Collection[StackCluster], placed: Placements, allowance: DeletionBudget) -> None:
    """Refuse when more has left git than is allowed; `known` is what the last sync found there."""
    gone = removed_placements(known, placed)
    if not gone:
        return
    if not placed.stacks and allowance.share < 1.0:
        raise _refused(f"git has no stack any more, and {_words(stack for stack, _ in known)} had been synced", gone)
    stacks, clusters = {stack for stack, _ in known}, {cluster for _, cluster in known}
    _check("stacks have left git", stacks - placed.stacks if placed.complete else (), len(stacks), gone, allowance)
    _check("clusters have left git", {c for _, c in gone} - placed.clusters, len(clusters), gone, allowance)
    for stack in sorted(placed.stacks & stacks):
        here = {cluster for one, cluster in known if one == stack}
        left = {cluster for one, cluster in gone if one == stack} & placed.clusters
        _check(f"clusters are no longer chosen by {stack}", left, len(here), gone, allowance)
    if len(gone) > allowance.deletions:
        have = "has" if len(gone) == 1 else "have"
        placements = count_noun(len(gone), "placement")
        raise _refused(f"{placements} {have} left git, the budget is {allowance.deletions}", gone)


def _check(
    what: str, left: Collection[str], had: int, gone: Collection[StackCluster], allowance: DeletionBudget
) -> None:
    if len(left) > allowance.share_of(had):
        raise _refused(f"{len(left)} of {had} {what} ({_words(left)}), the budget is {allowance.share_of(had)}", gone)


def _refused(message: str, gone: Collection[StackCluster]) -> PolicyError:
    return PolicyError(
        f"{message}; nothing is changed",
        hint=f"is it the right repository and commit? If it is meant, allow it once with --allow-deletes {len(gone)}: "
        "what has left is forgotten and left running",
        field="budget.share",
    )


def _words(names: Iterable[str]) -> str:
    known = sorted(set(names))
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return ", ".join(known[:MOST_NAMES]) + more


def applied_revisions(plans: Iterable[Plan]) -> dict[str, Plan]:
    """The commits on which the plans build, each with one that would change what it did."""
    return {
        plan.inventory.revision: plan
        for plan in plans
        if not plan.empty and plan.inventory.revision and plan.inventory.repository == plan.repository
    }


def check_ancestry(
    git: Repository,
    revision: str,
    plans: Iterable[Plan],
    *,
    back: bool = False,
    deepened: Callable[[Repository], Repository] = lambda git: git,
) -> None:
    """Refuse a commit that does not go on from those before it; `back`: a person named an earlier one.

    A shallow clone may not have what would prove it: it is `deepened` then, and refused if that is not enough.
    """
    before = applied_revisions(plans)
    before.pop(revision, None)
    if git.outside(before, revision):
        git = deepened(git)
    for one in git.outside(before, revision):
        if back and not git.outside([revision], one):
            continue
        plan = before[one]
        if git.shallow:
            raise ConfigurationError(
                f"whether {revision[:8]} goes on from {one[:8]}, which was applied to {plan.stack} on {plan.cluster}, "
                "cannot be told: this clone is shallow",
                hint=HISTORY_HINT,
            )
        raise PolicyError(
            f"{revision[:8]} does not go on from {one[:8]}, which was applied to {plan.stack} on {plan.cluster}: "
            "the history was rewritten",
            hint="was it pushed by force, or is this another branch? If it is meant, say --allow-rewritten once",
        )


def check_run(
    files: Checkout,
    evaluation: Evaluation,
    planned: Run,
    allowance: DeletionBudget,
    *,
    stacks: Collection[str] = (),
    remembered: bool = True,
    back: bool = False,
    rewritten: bool = False,
) -> None:
    """Raise what stops the run. Not `remembered`: the status branch is neither read nor written."""
    plans = [one.plan for one in planned.results if one.plan and not one.problem]
    if files.git is not None and not rewritten:
        check_ancestry(files.git, files.revision, plans, back=back, deepened=lambda git: _deepened(files, git))
    placed = Placements.of(evaluation, stacks)
    seen = {*placed.pairs, *((one.stack, one.cluster) for one in plans)}
    check_removed_placements(seen if placed.stacks else {*seen, *planned.orphans}, placed, allowance)
    if not remembered or files.git is None:
        return
    fresh = any(count_lost_objects(one) for one in plans)
    known = _known(files, fresh=fresh)
    try:
        check_removed_placements({*(known or ()), *seen}, placed, allowance)
    except PolicyError:
        if fresh:
            raise
        check_removed_placements({*(_known(files, fresh=True) or ()), *seen}, placed, allowance)


def _deepened(files: Checkout, git: Repository) -> Repository:
    settings = files.repository.settings.git
    return with_history(git, choose_remote(files.remotes, settings.remote), settings.branch)


def _known(files: Checkout, *, fresh: bool) -> frozenset[StackCluster] | None:
    """From this clone if it has it; else, or if it must be `fresh`, from the remote."""
    settings, git = files.repository.settings.git, files.git
    assert git is not None  # noqa: S101 - asked for by those who have one
    remote = choose_remote(files.remotes, settings.remote)
    found = None if fresh else read_placements(git, remote, branch=settings.status_branch, fresh=False)
    return found if found is not None else read_placements(git, remote, branch=settings.status_branch)
