"""Gates of a rollout: whether a change of a stack may begin in a cluster now. Pure.

A cluster has a revision when nothing is left to do for it there. It counts as healthy only if it was observed for this
very revision and the engine reports healthy: an older status, a cluster that does not answer and an app without a
reported status do not count. What is not known holds the other clusters up; it never lets them pass.

    frozen      nothing begins
    window      only in its hours
    needs       stacks that it needs, each healthy at this revision: in this cluster, or everywhere if not placed here
    stopped     a cluster that got this revision and is not healthy stops all that did not begin
    waves       all of the waves before are healthy, for the soak time
    approval    a user's approval of this wave, for what the stack wants
    unavailable no more clusters of the wave at once than it allows

The gates ask for the rollout state of a stack in a cluster. It is made here from what a run or the service observed.

A run, the service and the publisher of bundles ask all of them through `CommitRollout`. They differ in how they learn
of the states, and in what they do with a change that may not begin.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from fleet.evaluate.result import RolloutData, StackResult
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import StackCluster
from fleet.sync.result import PartiallyAppliedError, Result, WaitingError, error_of
from fleet.sync.rollout.approvals import NO_APPROVALS, Approvals, changes_digest
from fleet.times import parse_window, seconds

WELL = frozenset({"Healthy", "Suspended"})
ILL = frozenset({"Degraded", "Missing"})


@dataclass(frozen=True, slots=True)
class RolloutState:
    """State of a stack in one cluster, as last observed for the revision in question; unknown unless `seen`."""

    seen: bool = False
    applied: bool = False  # nothing is left to do for this revision
    partly: bool = False  # it has begun, and its other steps wait for health
    begun: bool = False  # it is being applied right now
    health: str = "Unknown"
    problem: str = ""  # why it could not be observed or applied; "" if it could
    since: float | None = None  # when it got this state and health, in seconds since the epoch; None if not known

    @property
    def is_well(self) -> bool:
        return self.seen and self.applied and not self.begun and not self.problem and self.health in WELL

    @property
    def words(self) -> str:
        if not self.seen:
            return "was not looked at yet"
        if self.begun:
            return "is being changed"
        if self.problem:
            return f"failed: {self.problem}"
        if self.partly:
            return f"has a part of this revision and is {self.health}"
        return f"is {self.health}" if self.applied else f"does not have this revision yet, and is {self.health}"

    @property
    def has_it(self) -> bool:
        """Return whether the health of the stack may come from this revision."""
        return self.seen and (self.applied or self.partly) and not self.begun


@dataclass(frozen=True, slots=True)
class GateDecision:
    """Decision of the gates. `reason` is "" if the change may begin.

    `again`: after so many seconds the decision may be another one, whatever else happens.
    """

    reason: str = ""
    again: float | None = None
    soaks: bool = field(default=False, compare=False)  # all is healthy, and has to stay so for a while
    asks: bool = field(default=False, compare=False)  # a user has to approve

    @property
    def goes(self) -> bool:
        return not self.reason


GO = GateDecision()
UNSEEN = RolloutState()


@dataclass(frozen=True, slots=True)
class CommitRollout:
    """Rollout of one commit: all that decides whether one of its changes may begin.

    The containers may be those that the caller goes on changing: each question is answered from what they have by then.
    """

    stacks: Mapping[str, StackResult]
    states: Mapping[StackCluster, RolloutState]  # as last observed for this commit; UNSEEN if missing
    begun: Container[StackCluster] = frozenset()  # changes that are being made right now
    approvals: Approvals = field(default_factory=lambda: NO_APPROVALS)  # of waves

    def may_begin(
        self, stack: StackResult, cluster: str, *, now: float, together: Collection[str] = ()
    ) -> GateDecision:
        """Return whether the stack may be changed in the cluster now.

        `together` are stacks that reach the cluster together with this one, so that it does not wait for them.
        """
        needs = [self.stacks[name] for name in stack.needs if name in self.stacks and name not in together]
        return decide_gate(
            stack.name,
            cluster,
            stack.rollout,
            self.states_of(stack),
            {needed.name: self.states_of(needed) for needed in needs},
            approved=self.approvals.get((stack.name, changes_digest(stack)), ()) if stack.rollout.approve else (),
            now=now,
        )

    def states_of(self, stack: StackResult) -> dict[str, RolloutState]:
        """Return the state of a stack in each of its clusters."""
        return {cluster: self.state((stack.name, cluster)) for cluster in stack.clusters}

    def state(self, placement: StackCluster) -> RolloutState:
        """Return the state of a placement; what is being changed right now counts as begun."""
        observed = self.states.get(placement, UNSEEN)
        return replace(observed, begun=True) if placement in self.begun else observed


def decide_gate(
    stack: str,
    cluster: str,
    rollout: RolloutData,
    standings: Mapping[str, RolloutState],
    needs: Mapping[str, Mapping[str, RolloutState]],
    *,
    approved: Collection[int] = (),
    now: float,
) -> GateDecision:
    """Return whether the change may begin, or the first reason against it.

    `standings` are the states of the stack by cluster, `needs` those of the stacks that it needs.
    """
    if rollout.freeze:
        return GateDecision("it is frozen: its rollout says freeze=True")
    return next(
        (
            decision
            for decision in (
                _check_windows(rollout, now),
                _check_needs(cluster, needs),
                *_check_waves(stack, cluster, rollout, standings, approved=approved, now=now),
            )
            if not decision.goes
        ),
        GO,
    )


def _check_windows(rollout: RolloutData, now: float) -> GateDecision:
    """Decide by the rollout's windows; outside of them, say when the next one begins."""
    if not rollout.windows:
        return GO
    moment = datetime.fromtimestamp(now, tz=ZoneInfo(rollout.timezone))
    spans = [parse_window(text) for text in rollout.windows]
    if any(span.holds(moment) for span in spans):
        return GO
    begins = min(span.begins_after(moment) for span in spans)
    shown = begins.strftime("%a %H:%M")
    return GateDecision(
        f"it is outside of its windows; the next begins {shown} {rollout.timezone}", begins.timestamp() - now
    )


def _check_needs(cluster: str, needs: Mapping[str, Mapping[str, RolloutState]]) -> GateDecision:
    """Decide by the stacks that this one needs."""
    for name, standings in sorted(needs.items()):
        for where in [cluster] if cluster in standings else sorted(standings):
            state = standings[where]
            if not state.is_well:
                return GateDecision(f"it needs stack {name}, which {_locate(where, cluster)}{state.words}")
    return GO


def _locate(where: str, cluster: str) -> str:
    """Return where another cluster is, for a message; "" for this one."""
    return "" if where == cluster else f"in {where} "


def _check_waves(
    stack: str,
    cluster: str,
    rollout: RolloutData,
    standings: Mapping[str, RolloutState],
    *,
    approved: Collection[int],
    now: float,
) -> Iterable[GateDecision]:
    """Yield the decisions by stopped rollouts, earlier waves, approval and unavailable clusters."""
    number = next((at for at, names in enumerate(rollout.waves, start=1) if cluster in names), 1)
    if rollout.max_unavailable or len(rollout.waves) > 1:
        yield _check_stopped(cluster, rollout, standings, now)
    for at, names in enumerate(rollout.waves[: number - 1], start=1):
        for name in names:
            yield _check_soak(at, name, standings.get(name, UNSEEN), rollout, now)
    if number in rollout.approve and number not in approved:
        yield GateDecision(f"wave {number} waits for a person: fleet approve {stack} {number}", asks=True)
    if rollout.max_unavailable:
        wave = rollout.waves[number - 1] if rollout.waves else tuple(standings)
        other_clusters = {name: standings.get(name, UNSEEN) for name in wave if name != cluster}
        unavailable = not _is_available(standings.get(cluster, UNSEEN))  # then a change takes no available cluster away
        busy = [
            name
            for name, state in other_clusters.items()
            if (_is_changing(state) if unavailable else not _is_available(state))
        ]
        if len(busy) >= rollout.max_unavailable:
            at_once = f"at most {rollout.max_unavailable} may be unavailable at once"
            yield GateDecision(f"{busy[0]} {standings.get(busy[0], UNSEEN).words}, and {at_once}")


def failed_clusters(
    rollout: RolloutData,
    standings: Mapping[str, RolloutState],
    now: float,
    *,
    ill: Collection[str] = ILL,
    lasting: float = 0.0,
) -> dict[str, str]:
    """Return the clusters in which this revision failed, each with its health.

    A cluster failed that got the revision and has a health in `ill` for `lasting` seconds, or is not healthy within the
    rollout's timeout. An object that is missing while other steps wait is only not created yet.
    """
    failed = {}
    for name, state in sorted(standings.items()):
        lasts = not lasting or (state.since is not None and now - state.since >= lasting)
        at_once = state.health in ill and lasts and not (state.partly and state.health == "Missing")
        late = state.health not in WELL and state.since is not None and now - state.since > seconds(rollout.timeout)
        if state.has_it and (at_once or late):
            failed[name] = state.health + ("" if at_once else f" after {rollout.timeout}")
    return failed


def _check_stopped(
    cluster: str, rollout: RolloutData, standings: Mapping[str, RolloutState], now: float
) -> GateDecision:
    """Decide by the other clusters: one in which this revision failed stops the rollout."""
    for name, health in failed_clusters(rollout, standings, now).items():
        if name != cluster:
            has = "has a part of this revision" if standings[name].partly else "has this revision"
            return GateDecision(f"the rollout is stopped: {name} {has} and is {health}")
    return GO


def _check_soak(at: int, name: str, state: RolloutState, rollout: RolloutData, now: float) -> GateDecision:
    """Decide by one cluster of an earlier wave: it has to be healthy for the soak time."""
    if not state.is_well:
        return GateDecision(f"wave {at} is not done: {name} {state.words}")
    soaked = now - state.since if state.since is not None else 0.0
    left = seconds(rollout.soak) - soaked
    if left > 0:
        return GateDecision(f"wave {at} soaks: {name} has to stay healthy for {rollout.soak}", left, soaks=True)
    return GO


def _is_available(state: RolloutState) -> bool:
    """Return whether the stack is healthy at whichever revision, or nothing exists yet that could be."""
    nothing_yet = not state.applied and not state.partly and state.health == "Missing"
    return state.seen and not state.begun and not state.problem and (state.health in WELL or nothing_yet)


def _is_changing(state: RolloutState) -> bool:
    """Return whether the stack is being changed or not healthy yet after it; also if it was not observed."""
    return not state.seen or state.begun or (state.has_it and not state.is_well)


def state_before(result: Result, health: str) -> RolloutState:
    """Return the state after planning and before anything is done; `health` is that of the live objects."""
    problem = result.problem or (error_of(result.plan, None) if result.plan else None)
    return RolloutState(
        seen=True,
        applied=problem is None and not result.held_back and (result.plan is None or result.plan.empty),
        health=health,
        problem=problem.message if problem else "",
    )


def state_after(result: Result) -> RolloutState:
    """Return the state after a reconcile, whatever its result."""
    waits = isinstance(result.problem, WaitingError)
    return RolloutState(
        seen=True,
        applied=result.problem is None and not result.held_back,
        partly=isinstance(result.problem, PartiallyAppliedError),
        health=result.health,
        problem="" if waits or not result.problem else result.problem.message,
    )


def keep_since(before: RolloutState, observed: RolloutState, *, wrote: bool, now: float) -> RolloutState:
    """Return the observed state with since when it is so: as long as before, if nothing was written or changed."""
    same = not wrote and replace(before, since=None) == replace(observed, since=None)
    return replace(observed, since=before.since if same and before.since else now)


def healthy_since(result: Result, record: StatusRecord | None, now: float) -> float:
    """Return since when a healthy stack is healthy, in seconds since the epoch.

    The status record of another sync says so; without one that fits it is `now`. It is never before the last change.
    """
    changed = changed_at(result)
    if record is None or record.health != result.health or record.sync != "Synced" or changed is None:
        return now
    return max(_seconds(record.since), changed)


def changed_at(result: Result) -> float | None:
    """Return when the stack was last changed in the cluster, by the inventory that was read; None if not known."""
    text = result.plan.inventory.changed if result.plan else ""
    return _seconds(text) if text else None


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
