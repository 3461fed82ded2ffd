"""May a change begin here now.

Whether a change of a stack may begin in a cluster now, from how the stack is in all its clusters. Pure.

A cluster has a revision when there is nothing left to do for it there, and it counts as well only if it was looked at
for this very revision and the engine says healthy: a status of before, a cluster that does not answer and an app that
nobody reports on are not. What is not known holds the others up; it never lets them pass.

    frozen      nothing begins
    window      only in its hours
    needs       stacks that it needs, each healthy at this revision: in this cluster, or everywhere if not placed here
    stopped     a cluster that got this revision and is not well stops all that did not begin
    waves       all of the waves before are healthy, for the soak time
    approval    a person's word for this wave of this commit
    unavailable no more clusters of the wave at once than it allows

How a stack is in a cluster, as the gates ask it, from what a look or a pass saw there. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from fleet.evaluate.result import RolloutData
from fleet.git.status_records import StatusRecord
from fleet.sync.result import PartiallyAppliedError, Result, WaitingError, error_of
from fleet.times import parse_window, seconds

WELL = frozenset({"Healthy", "Suspended"})
ILL = frozenset({"Degraded", "Missing"})


@dataclass(frozen=True, slots=True)
class RolloutState:
    """How a stack is in one cluster, as last looked at for the revision in question; not at all unless `seen`."""

    seen: bool = False
    applied: bool = False  # nothing is left to do for this revision
    partly: bool = False  # it has begun, and the rest waits for health
    begun: bool = False  # it is being applied right now
    health: str = "Unknown"
    problem: str = ""  # why it could not be looked at or applied
    since: float | None = None  # when it became what it is: applied, and of this health; seconds of the epoch

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
        """Whether how it is may come from this revision."""
        return self.seen and (self.applied or self.partly) and not self.begun


@dataclass(frozen=True, slots=True)
class GateDecision:
    """`reason` is "" for go. `again`: in so many seconds the answer may be another, whatever else happens."""

    reason: str = ""
    again: float | None = None
    soaks: bool = field(default=False, compare=False)  # all is well, and has to stay so for a while
    asks: bool = field(default=False, compare=False)  # a person has to say something

    @property
    def goes(self) -> bool:
        return not self.reason


GO = GateDecision()
UNSEEN = RolloutState()


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
    """`standings` of the stack by cluster, `needs` those of the stacks that it needs."""
    if rollout.freeze:
        return GateDecision("it is frozen: its rollout says freeze=True")
    return next(
        (
            verdict
            for verdict in (
                _windows(rollout, now),
                _needed(cluster, needs),
                *_waves(stack, cluster, rollout, standings, approved=approved, now=now),
            )
            if not verdict.goes
        ),
        GO,
    )


def _windows(rollout: RolloutData, now: float) -> GateDecision:
    if not rollout.windows:
        return GO
    moment = datetime.fromtimestamp(now, tz=ZoneInfo(rollout.timezone))
    spans = [parse_window(text) for text in rollout.windows]
    if any(one.holds(moment) for one in spans):
        return GO
    begins = min(one.begins_after(moment) for one in spans)
    shown = begins.strftime("%a %H:%M")
    return GateDecision(
        f"it is outside of its windows; the next begins {shown} {rollout.timezone}", begins.timestamp() - now
    )


def _needed(cluster: str, needs: Mapping[str, Mapping[str, RolloutState]]) -> GateDecision:
    for name, standings in sorted(needs.items()):
        for where in [cluster] if cluster in standings else sorted(standings):
            one = standings[where]
            if not one.is_well:
                return GateDecision(f"it needs stack {name}, which {_in(where, cluster)}{one.words}")
    return GO


def _in(where: str, cluster: str) -> str:
    return "" if where == cluster else f"in {where} "


def _waves(
    stack: str,
    cluster: str,
    rollout: RolloutData,
    standings: Mapping[str, RolloutState],
    *,
    approved: Collection[int],
    now: float,
) -> Iterable[GateDecision]:
    number = next((at for at, names in enumerate(rollout.waves, start=1) if cluster in names), 1)
    if rollout.max_unavailable or len(rollout.waves) > 1:
        yield _stopped(cluster, rollout, standings, now)
    for at, names in enumerate(rollout.waves[: number - 1], start=1):
        for name in names:
            yield _passed(at, name, standings.get(name, UNSEEN), rollout, now)
    if number in rollout.approve and number not in approved:
        yield GateDecision(f"wave {number} waits for a person: fleet approve {stack} {number}", asks=True)
    if rollout.max_unavailable:
        wave = rollout.waves[number - 1] if rollout.waves else tuple(standings)
        others = {name: standings.get(name, UNSEEN) for name in wave if name != cluster}
        ill = not _is_available(standings.get(cluster, UNSEEN))  # then a change takes nothing away that there was
        busy = [name for name, one in others.items() if (_is_changing(one) if ill else not _is_available(one))]
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
    """The clusters that got this revision and are `ill` for `lasting` seconds, or not well in time, with how each is.

    What is missing while the rest waits for its turn is only to be made yet.
    """
    found = {}
    for name, one in sorted(standings.items()):
        lasts = not lasting or (one.since is not None and now - one.since >= lasting)
        at_once = one.health in ill and lasts and not (one.partly and one.health == "Missing")
        late = one.health not in WELL and one.since is not None and now - one.since > seconds(rollout.timeout)
        if one.has_it and (at_once or late):
            found[name] = one.health + ("" if at_once else f" after {rollout.timeout}")
    return found


def _stopped(cluster: str, rollout: RolloutData, standings: Mapping[str, RolloutState], now: float) -> GateDecision:
    for name, words in failed_clusters(rollout, standings, now).items():
        if name != cluster:
            has = "has a part of this revision" if standings[name].partly else "has this revision"
            return GateDecision(f"the rollout is stopped: {name} {has} and is {words}")
    return GO


def _passed(at: int, name: str, one: RolloutState, rollout: RolloutData, now: float) -> GateDecision:
    if not one.is_well:
        return GateDecision(f"wave {at} is not done: {name} {one.words}")
    soaked = now - one.since if one.since is not None else 0.0
    left = seconds(rollout.soak) - soaked
    if left > 0:
        return GateDecision(f"wave {at} soaks: {name} has to stay healthy for {rollout.soak}", left, soaks=True)
    return GO


def _is_available(one: RolloutState) -> bool:
    """Well, at whichever revision it is; or there is nothing yet that could be."""
    nothing_yet = not one.applied and not one.partly and one.health == "Missing"
    return one.seen and not one.begun and not one.problem and (one.health in WELL or nothing_yet)


def _is_changing(one: RolloutState) -> bool:
    return not one.seen or one.begun or (one.has_it and not one.is_well)


def state_before(result: Result, health: str) -> RolloutState:
    """After the plan and before anything is done; `health` is that of what is there."""
    problem = result.problem or (error_of(result.plan, None) if result.plan else None)
    return RolloutState(
        seen=True,
        applied=problem is None and not result.held_back and (result.plan is None or result.plan.empty),
        health=health,
        problem=problem.message if problem else "",
    )


def state_after(result: Result) -> RolloutState:
    """After a pass, whatever came of it."""
    waits = isinstance(result.problem, WaitingError)
    return RolloutState(
        seen=True,
        applied=result.problem is None and not result.held_back,
        partly=isinstance(result.problem, PartiallyAppliedError),
        health=result.health,
        problem="" if waits or not result.problem else result.problem.message,
    )


def healthy_since(result: Result, told: StatusRecord | None, now: float) -> float:
    """Since when a stack that was found well is so, by what others wrote; now, where they did not."""
    changed = changed_at(result)
    if told is None or told.health != result.health or told.sync != "Synced" or changed is None:
        return now
    return max(_seconds(told.since), changed)


def changed_at(result: Result) -> float | None:
    """When the stack was last changed there, by the inventory that was looked at."""
    text = result.plan.inventory.changed if result.plan else ""
    return _seconds(text) if text else None


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
