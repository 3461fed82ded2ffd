"""Whose turn it is: how every stack is in every cluster at the newest revision, asked before a change begins.

The decision itself is `fleet.sync.rollout.gates`. What it is made from is seen by passes and forgotten with the
process; since when a stack is well is then told by the status branch and by its inventory, and approvals are in git.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from fleet.evaluate.result import StackResult
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import StackCluster
from fleet.serve.commits import EvaluatedCommit
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout.approvals import Approvals, changes_digest
from fleet.sync.rollout.gates import (
    UNSEEN,
    WELL,
    RolloutState,
    changed_at,
    decide_gate,
    failed_clusters,
    healthy_since,
    state_after,
)
from fleet.times import seconds


@dataclass(slots=True)
class RolloutTracker:
    clock: Callable[[], float] = time.time
    heard: str | None = None  # which approvals are known
    elsewhere: dict[StackCluster, tuple[str, RolloutState]] = field(
        default_factory=dict
    )  # of clusters that only agents reach
    again: dict[StackCluster, float] = field(default_factory=dict)  # seconds after which to ask again, of what waits
    _approvals: Approvals = field(default_factory=dict)
    _standings: dict[StackCluster, tuple[str, RolloutState]] = field(default_factory=dict)  # with the commit looked at
    _begun: Counter[StackCluster] = field(default_factory=Counter)
    _told: dict[StackCluster, StatusRecord] = field(default_factory=dict)  # by whoever served before
    _changed: dict[StackCluster, float] = field(default_factory=dict)  # when a pass last changed a stack in a cluster
    _given: dict[StackCluster, float] = field(
        default_factory=dict
    )  # when clusters that only agents reach were given it
    _whole: dict[str, float] = field(default_factory=dict)  # stacks that are well everywhere, and since when
    _over: set[str] = field(default_factory=set)  # stacks that were so for long enough: their rollout is over
    _ill_before: set[StackCluster] = field(
        default_factory=set
    )  # what was ill when the newest commit came: it is not its cause

    @property
    def approvals(self) -> Approvals:
        return self._approvals

    def remember(self, records: Iterable[StatusRecord]) -> None:
        self._told = {(one.stack, one.cluster): one for one in records}

    def told(self, pair: StackCluster) -> StatusRecord | None:
        """What whoever served before said of it."""
        return self._told.get(pair)

    def hear(self, approvals: Approvals, tip: str | None) -> None:
        self._approvals, self.heard = approvals, tip

    def forget(self, pair: StackCluster) -> None:
        self._standings.pop(pair, None)
        self._changed.pop(pair, None)
        self._ill_before.discard(pair)
        self.again.pop(pair, None)

    def hear_of(
        self, revision: str, standings: Mapping[StackCluster, RolloutState], given: Mapping[StackCluster, float]
    ) -> None:
        """How stacks are where only agents reach, and when they were given what they have, as far as that matters.

        It is kept apart from what passes see: a cluster may turn from one kind to the other, and both are under way.
        """
        self.elsewhere = {pair: (revision, one) for pair, one in standings.items()}
        self._given = dict(given)

    def begins(self, stacks: Iterable[str]) -> None:
        """A commit wants something else of these."""
        for name in stacks:
            self._whole.pop(name, None)
            self._over.discard(name)

    def moved_on(self, pairs: Iterable[StackCluster], before: str, after: str) -> None:
        """A commit that wants of these what the one before it does: what was seen of that one counts for it."""
        for pair in pairs:
            commit, seen = self._standings.get(pair, ("", UNSEEN))
            if commit == before:
                self._standings[pair] = (after, seen)

    def objection(
        self, current: EvaluatedCommit, stack: StackResult, cluster: str, begun: Counter[StackCluster]
    ) -> WaitingError | None:
        """Why the stack may not be changed there now; None: it may, and from here on it is being changed.

        `begun` is what the same pass has begun; it gives it back with `ended`.
        """
        pair = (stack.name, cluster)
        verdict = decide_gate(
            stack.name,
            cluster,
            stack.rollout,
            self._all(current, stack),
            {name: self._all(current, current.stacks[name]) for name in stack.needs if name in current.stacks},
            approved=self._approvals.get((stack.name, changes_digest(stack)), ()) if stack.rollout.approve else (),
            now=self.clock(),
        )
        if verdict.goes:
            self.again.pop(pair, None)
            begun[pair] += 1
            self._begun[pair] += 1
            return None
        self.again[pair] = min(verdict.again or 60.0, 60.0)
        return WaitingError(cluster, stack.name, verdict.reason)

    def ended(self, begun: Counter[StackCluster]) -> None:
        """A pass is over, however it ended."""
        self._begun -= begun

    def note(self, current: EvaluatedCommit, result: Result) -> bool:
        """What a pass saw. True when others may be waiting for just that."""
        pair = (result.stack, result.cluster)
        seen = state_after(result)
        commit, before = self._standings.get(pair, ("", None))
        wrote = any(verb.writes for verb in result.done)
        if before is None:
            told = self._told.get(pair)
            since = healthy_since(result, told, self.clock()) if seen.is_well and not wrote else self.clock()
        elif wrote or replace(before, since=None) != seen:
            since = self.clock()
        else:
            since = before.since or self.clock()
        if before is not None and commit != current.commit:
            was_ill = before.health == "Degraded" and not before.begun
            (self._ill_before.add if was_ill else self._ill_before.discard)(pair)
        after = replace(seen, since=since)
        self._standings[pair] = (current.commit, after)
        if wrote or pair not in self._changed:
            self._changed[pair] = self.clock() if wrote else changed_at(result) or 0.0
        if not isinstance(result.problem, WaitingError):
            self.again.pop(pair, None)
        return after != before or commit != current.commit

    def fallen(self, current: EvaluatedCommit, stack: StackResult) -> tuple[str, str] | None:
        """The first cluster that a rollout which is under way made ill, and how it is.

        What was well everywhere for the soak time is no rollout any more, nor is what fell ill long after it changed or
        was ill before. It has to be ill for some time without a break: see `ripens`.
        """
        standings = self._suspects(current, stack)
        lasting = seconds(stack.rollout.rollback_after)
        found = failed_clusters(stack.rollout, standings, self.clock(), ill=("Degraded",), lasting=lasting)
        return next(iter(found.items()), None)

    def ripens(self, current: EvaluatedCommit, stack: StackResult) -> dict[str, float]:
        """The clusters that are ill and may recover, each with the seconds until that counts as a failure."""
        now, standings = self.clock(), self._suspects(current, stack)
        ill = failed_clusters(stack.rollout, standings, now, ill=("Degraded",))
        left = {cluster: self._counts_at(stack, standings[cluster]) - now for cluster in ill}
        return {cluster: after for cluster, after in left.items() if after > 0}

    def _suspects(self, current: EvaluatedCommit, stack: StackResult) -> dict[str, RolloutState]:
        """The clusters whose health may come from a rollout that is under way."""
        now, standings = self.clock(), self._all(current, stack)
        if all(one.is_well for one in standings.values()):
            self._whole.setdefault(stack.name, now)
            return {}
        since = self._whole.pop(stack.name, None)
        if since is not None and now - since >= seconds(stack.rollout.soak):
            self._over.add(stack.name)
        if stack.name in self._over:
            return {}
        return {
            cluster: one
            for cluster, one in standings.items()
            if (stack.name, cluster) not in self._ill_before
            and self._is_of_its_change(current, stack, cluster, one.since or now)
        }

    def _counts_at(self, stack: StackResult, one: RolloutState) -> float:
        """When what is not well counts as a failure, if it stays so; `since` has to be known."""
        rollout = stack.rollout
        return (one.since or 0.0) + seconds(rollout.rollback_after if one.health == "Degraded" else rollout.timeout)

    def late(self, current: EvaluatedCommit) -> float | None:
        """Seconds until something that agents told becomes a failure by the clock alone; None: nothing will."""
        now, times = self.clock(), []
        for (name, cluster), (_, one) in self.elsewhere.items():
            stack = current.stacks.get(name)
            if stack is None or stack.rollout.on_failure != "rollback" or one.since is None:
                continue
            at = self._counts_at(stack, one)
            may = one.has_it and one.health not in WELL and self._is_of_its_change(current, stack, cluster, one.since)
            if may and at >= now:
                times.append(at - now)
        return min(times, default=None)

    def _is_of_its_change(self, current: EvaluatedCommit, stack: StackResult, cluster: str, since: float) -> bool:
        """Whether what is so since then is still of the time in which a change is answerable for it."""
        pair = (stack.name, cluster)
        by_pass = self._standings.get(pair, ("", UNSEEN))[0] == current.commit
        changed = (self._changed if by_pass else self._given).get(pair, 0.0)
        return since - changed <= seconds(stack.rollout.soak) + seconds(stack.rollout.timeout)

    def waiting(self, stacks: Mapping[str, StackResult] | None = None, changed: str = "") -> list[StackCluster]:
        """What waits; with `changed`, only what may wait for that stack."""
        if stacks is None:
            return list(self.again)
        return [
            pair
            for pair in self.again
            if pair[0] == changed or (pair[0] in stacks and changed in stacks[pair[0]].needs)
        ]

    def _all(self, current: EvaluatedCommit, stack: StackResult) -> dict[str, RolloutState]:
        pairs = {cluster: (stack.name, cluster) for cluster in stack.clusters}
        return {cluster: self.standing(current, pair) for cluster, pair in pairs.items()}

    def standing(self, current: EvaluatedCommit, pair: StackCluster) -> RolloutState:
        told = (self._standings.get(pair, ("", UNSEEN)), self.elsewhere.get(pair, ("", UNSEEN)))
        seen = next((one for commit, one in told if commit == current.commit), UNSEEN)
        return replace(seen, begun=True) if pair in self._begun else seen
