"""What git no longer speaks of: stacks, clusters and placements that were there in the last sync. Pure.

Nothing of it is ever deleted, but much of it at once is seldom meant: an emptied directory, a repository that is not
the one it was, labels that were mistyped. So it has a budget, and beyond it the run stops before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fleet.errors import PolicyError
from fleet.evaluate.result import Evaluation
from fleet.model.desired import StackCluster
from fleet.plan.budget import Allowance
from fleet.printable import count_noun

MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Placed:
    """What git speaks of now; not `complete` when only some stacks were asked for."""

    stacks: frozenset[str]
    clusters: frozenset[str]
    pairs: frozenset[StackCluster]
    complete: bool = True

    @classmethod
    def of(cls, evaluation: Evaluation, stacks_asked: Collection[str] = ()) -> Placed:
        return cls(
            frozenset(one.name for one in evaluation.stacks),
            frozenset(one.name for one in evaluation.clusters),
            frozenset((one.name, cluster) for one in evaluation.stacks for cluster in one.clusters),
            complete=not stacks_asked,
        )


def departed(known: Iterable[StackCluster], placed: Placed) -> frozenset[StackCluster]:
    """The pairs that were, and of which git does not speak any more."""
    return frozenset(
        pair for pair in known if pair not in placed.pairs and (placed.complete or pair[0] in placed.stacks)
    )


def check_departures(known: Collection[StackCluster], placed: Placed, allowance: Allowance) -> None:
    """Refuse when more has left git than is allowed; `known` is what the last sync found there."""
    gone = departed(known, placed)
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


def _check(what: str, left: Collection[str], had: int, gone: Collection[StackCluster], allowance: Allowance) -> None:
    if len(left) > allowance.of(had):
        raise _refused(f"{len(left)} of {had} {what} ({_words(left)}), the budget is {allowance.of(had)}", gone)


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
