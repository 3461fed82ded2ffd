"""The deletion budget of a cluster, by commit: passes are only how the service comes to carry one out. Pure.

A pass may be about one stack. What the others lose by the same commit counts all the same: what was let go before,
and what is refused or waits. Nothing goes before every stack of the cluster was looked at with what the commit wants
of it, so the whole is judged first, also by a process that has just begun and knows nothing of the one before it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from fleet.model.desired import Desired, Key, StackCluster
from fleet.plan import Plan
from fleet.plan.budget import Allowance, check_budget, lost
from fleet.sync.turn import WaitingError

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
class Spending:
    _seen: dict[StackCluster, _Seen] = field(default_factory=dict)
    _let_go: dict[tuple[str, str], dict[str, frozenset[Key]]] = field(default_factory=dict)  # by cluster and revision

    def check(
        self,
        cluster: str,
        plans: Iterable[Plan],
        allowance: Allowance,
        *,
        revision: str,
        wanted: Mapping[str, Desired],
        looked_at: Set[str],
    ) -> None:
        """Raise PolicyError if what the plans of a pass take away may not go; else it counts as gone from here on.

        `wanted` is what the commit wants of every stack of the cluster, `looked_at` those that the pass is about.
        """
        plans = list(plans)
        losses = {one.stack: lost(one) for one in plans}
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
