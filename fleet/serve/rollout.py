"""Rollout state of every stack in every cluster at the newest revision, consulted before a change begins.

`fleet.sync.rollout.gates.CommitRollout` takes the decision itself. What it is made from is observed by passes and lost
with the process; since when a stack is healthy is then read from the status branch and from its inventory, and
approvals are in git.
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
from fleet.sync.rollout.approvals import Approvals
from fleet.sync.rollout.gates import (
    UNSEEN,
    WELL,
    CommitRollout,
    RolloutState,
    changed_at,
    failed_clusters,
    healthy_since,
    keep_since,
    state_after,
)
from fleet.times import seconds


@dataclass(slots=True)
class RolloutTracker:
    """Rollout states of one repository, with the changes that are being made and the placements that wait."""

    clock: Callable[[], float] = time.time
    approvals: Approvals = field(default_factory=dict)  # of waves, as last read
    approvals_tip: str | None = None  # the commit that they were read from
    agent_states: dict[StackCluster, tuple[str, RolloutState]] = field(
        default_factory=dict
    )  # states in clusters that only agents reach, with the revision
    retry_after: dict[StackCluster, float] = field(
        default_factory=dict
    )  # seconds after which to ask again, of placements that wait
    _states: dict[StackCluster, tuple[str, RolloutState]] = field(default_factory=dict)  # with the synced commit
    _begun: Counter[StackCluster] = field(default_factory=Counter)
    _records: dict[StackCluster, StatusRecord] = field(default_factory=dict)  # by the process before this one
    _changed: dict[StackCluster, float] = field(default_factory=dict)  # when a pass last changed a stack in a cluster
    _delivered: dict[StackCluster, float] = field(
        default_factory=dict
    )  # when clusters that only agents reach were given their content
    _healthy_since: dict[str, float] = field(default_factory=dict)  # stacks that are healthy everywhere, and since when
    _finished: set[str] = field(default_factory=set)  # stacks that were so for the soak time: their rollout is over
    _unhealthy_before: set[StackCluster] = field(
        default_factory=set
    )  # Degraded when the newest commit came, which is not the cause

    def take_records(self, records: Iterable[StatusRecord]) -> None:
        """Keep the status records of the process before this one."""
        self._records = {(record.stack, record.cluster): record for record in records}

    def record_of(self, pair: StackCluster) -> StatusRecord | None:
        """Return what the status branch said of the placement when this process started."""
        return self._records.get(pair)

    def take_approvals(self, approvals: Approvals, tip: str | None) -> None:
        """Take the wave approvals, with the commit that they were read from."""
        self.approvals, self.approvals_tip = approvals, tip

    def forget(self, pair: StackCluster) -> None:
        self._states.pop(pair, None)
        self._changed.pop(pair, None)
        self._unhealthy_before.discard(pair)
        self.retry_after.pop(pair, None)

    def take_agent_states(
        self, revision: str, states: Mapping[StackCluster, RolloutState], delivered: Mapping[StackCluster, float]
    ) -> None:
        """Take the rollout states in clusters that only agents reach, and when these were given content that matters.

        They are kept apart from what passes observe: a cluster may turn from one kind to the other while both are under
        way.
        """
        self.agent_states = {pair: (revision, state) for pair, state in states.items()}
        self._delivered = dict(delivered)

    def begin_rollouts(self, stacks: Iterable[str]) -> None:
        """Begin the rollouts of stacks that a new commit changes."""
        for name in stacks:
            self._healthy_since.pop(name, None)
            self._finished.discard(name)

    def carry_over(self, pairs: Iterable[StackCluster], before: str, after: str) -> None:
        """Keep the observed state of placements that the new commit does not change."""
        for pair in pairs:
            commit, state = self._states.get(pair, ("", UNSEEN))
            if commit == before:
                self._states[pair] = (after, state)

    def find_objection(
        self, current: EvaluatedCommit, stack: StackResult, cluster: str, begun: Counter[StackCluster]
    ) -> WaitingError | None:
        """Return why the stack may not be changed there now; on None the change counts as begun.

        `begun` collects what the same pass has begun; the pass gives it back with `end_changes`.
        """
        pair = (stack.name, cluster)
        decision = self._rollout_of(current, stack).may_begin(stack, cluster, now=self.clock())
        if decision.goes:
            self.retry_after.pop(pair, None)
            begun[pair] += 1
            self._begun[pair] += 1
            return None
        self.retry_after[pair] = min(decision.again or 60.0, 60.0)
        return WaitingError(cluster, stack.name, decision.reason)

    def end_changes(self, begun: Counter[StackCluster]) -> None:
        """Take back what a pass had begun, however the pass ended."""
        self._begun -= begun

    def note(self, current: EvaluatedCommit, result: Result) -> bool:
        """Record the result of a pass; return whether other placements may be waiting for just that."""
        pair = (result.stack, result.cluster)
        observed = state_after(result)
        commit, before = self._states.get(pair, ("", None))
        wrote = any(verb.writes for verb in result.done)
        if before is None:
            record = self._records.get(pair)
            since = healthy_since(result, record, self.clock()) if observed.is_well and not wrote else self.clock()
            after = replace(observed, since=since)
        else:
            after = keep_since(before, observed, wrote=wrote, now=self.clock())
        if before is not None and commit != current.commit:
            was_ill = before.health == "Degraded" and not before.begun
            (self._unhealthy_before.add if was_ill else self._unhealthy_before.discard)(pair)
        self._states[pair] = (current.commit, after)
        if wrote or pair not in self._changed:
            self._changed[pair] = self.clock() if wrote else changed_at(result) or 0.0
        if not isinstance(result.problem, WaitingError):
            self.retry_after.pop(pair, None)
        return after != before or commit != current.commit

    def find_failure(self, current: EvaluatedCommit, stack: StackResult) -> tuple[str, str] | None:
        """Return the first cluster in which a rollout that is under way failed, and its health; None if there is none.

        A stack that was healthy everywhere for the soak time is no longer rolled out. A cluster that failed long after
        its change, or had failed before it, does not count either. It has to be Degraded for some time without a break:
        see `failing_clusters`.
        """
        states = self._suspect_states(current, stack)
        lasting = seconds(stack.rollout.rollback_after)
        failed = failed_clusters(stack.rollout, states, self.clock(), ill=("Degraded",), lasting=lasting)
        return next(iter(failed.items()), None)

    def failing_clusters(self, current: EvaluatedCommit, stack: StackResult) -> dict[str, float]:
        """Return the Degraded clusters that may recover, each with the seconds until that counts as a failure."""
        now, states = self.clock(), self._suspect_states(current, stack)
        ill = failed_clusters(stack.rollout, states, now, ill=("Degraded",))
        left = {cluster: self._fails_at(stack, states[cluster]) - now for cluster in ill}
        return {cluster: after for cluster, after in left.items() if after > 0}

    def _suspect_states(self, current: EvaluatedCommit, stack: StackResult) -> dict[str, RolloutState]:
        """Return the clusters whose health may come from a rollout that is under way, with their states."""
        now, states = self.clock(), self._rollout_of(current, stack).states_of(stack)
        if all(state.is_well for state in states.values()):
            self._healthy_since.setdefault(stack.name, now)
            return {}
        since = self._healthy_since.pop(stack.name, None)
        if since is not None and now - since >= seconds(stack.rollout.soak):
            self._finished.add(stack.name)
        if stack.name in self._finished:
            return {}
        return {
            cluster: state
            for cluster, state in states.items()
            if (stack.name, cluster) not in self._unhealthy_before
            and self._is_of_last_change(current, stack, cluster, state.since or now)
        }

    def _fails_at(self, stack: StackResult, state: RolloutState) -> float:
        """Return when an unhealthy state counts as a failure, if it lasts; `since` has to be known."""
        rollout = stack.rollout
        return (state.since or 0.0) + seconds(rollout.rollback_after if state.health == "Degraded" else rollout.timeout)

    def seconds_to_failure(self, current: EvaluatedCommit) -> float | None:
        """Return the seconds until a state that agents reported becomes a failure by time alone; None if none will."""
        now, times = self.clock(), []
        for (name, cluster), (_, state) in self.agent_states.items():
            stack = current.stacks.get(name)
            if stack is None or stack.rollout.on_failure != "rollback" or state.since is None:
                continue
            at = self._fails_at(stack, state)
            may = (
                state.has_it
                and state.health not in WELL
                and self._is_of_last_change(current, stack, cluster, state.since)
            )
            if may and at >= now:
                times.append(at - now)
        return min(times, default=None)

    def _is_of_last_change(self, current: EvaluatedCommit, stack: StackResult, cluster: str, since: float) -> bool:
        """Return whether the health changed at `since`, within the soak and timeout of the last change there."""
        pair = (stack.name, cluster)
        by_pass = self._states.get(pair, ("", UNSEEN))[0] == current.commit
        changed = (self._changed if by_pass else self._delivered).get(pair, 0.0)
        return since - changed <= seconds(stack.rollout.soak) + seconds(stack.rollout.timeout)

    def waiting(self, stacks: Mapping[str, StackResult] | None = None, changed: str = "") -> list[StackCluster]:
        """Return the placements that wait; with `changed`, only those that may wait for that stack."""
        if stacks is None:
            return list(self.retry_after)
        return [
            pair
            for pair in self.retry_after
            if pair[0] == changed or (pair[0] in stacks and changed in stacks[pair[0]].needs)
        ]

    def state(self, current: EvaluatedCommit, pair: StackCluster) -> RolloutState:
        """Return the rollout state of a placement at this commit; what is being changed right now counts as begun."""
        return self._rollout(current, [pair]).state(pair)

    def _rollout_of(self, current: EvaluatedCommit, stack: StackResult) -> CommitRollout:
        """Return what decides about the changes of one stack: its own states, and those of the stacks that it needs."""
        stacks = [stack, *(current.stacks[name] for name in stack.needs if name in current.stacks)]
        return self._rollout(current, ((it.name, cluster) for it in stacks for cluster in it.clusters))

    def _rollout(self, current: EvaluatedCommit, placements: Iterable[StackCluster]) -> CommitRollout:
        states = {pair: self._state_of(current.commit, pair) for pair in placements}
        return CommitRollout(current.stacks, states, self._begun, self.approvals)

    def _state_of(self, commit: str, pair: StackCluster) -> RolloutState:
        """Return the state of a placement at a commit, as a pass observed it or an agent reported it."""
        observations = (self._states.get(pair, ("", UNSEEN)), self.agent_states.get(pair, ("", UNSEEN)))
        return next((state for observed_at, state in observations if observed_at == commit), UNSEEN)
