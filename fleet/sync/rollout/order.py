"""Queue of one run: which change begins when, by the same gates as in the service (`gates.CommitRollout`).

Every stack in every cluster asks before it writes. It waits until the gates let it through, or until nothing that this
run does could open them: then it gets that as an error, and the next run goes on from there. What happens outside of
the run (an approval by a user, a window that begins) is read but not waited for. A soak is waited for and observed
meanwhile.

`describe_rollout` describes the same order for the user who reads a plan.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet.errors import FleetError
from fleet.evaluate.result import Evaluation, RolloutData, StackResult
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import StackCluster
from fleet.plan import Plan
from fleet.plan.drift import drift_error
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout.approvals import Approvals
from fleet.sync.rollout.gates import UNSEEN, CommitRollout, GateDecision, RolloutState, keep_since, state_after
from fleet.sync.targets import ClusterTarget, choose_targets
from fleet.times import seconds

LOOK = 2.0  # seconds between two observations of stacks that soak
Look = Callable[[StackCluster], Awaitable[str]]  # the health of a stack in a cluster, now
Tell = Callable[[str, str, str], None]  # stack, cluster, what it waits for


@dataclass(frozen=True, slots=True)
class RolloutContext:
    """Input of a run's gates besides its own plans."""

    stacks: Mapping[str, StackResult]
    wait: bool = True  # False: only what may begin now begins, and no soak is waited for
    approvals: Callable[[], Approvals] = lambda: {}  # read again each time a gate asks for one
    # Clusters that are observed and not changed: changed ones have to wait for them.
    bystanders: Sequence[ClusterTarget] = ()
    # From the status branch: since when each stack is healthy.
    status_records: Mapping[StackCluster, StatusRecord] = field(default_factory=dict)
    elsewhere: Mapping[StackCluster, RolloutState] = field(default_factory=dict)  # in clusters that only agents reach
    clock: Callable[[], float] = time.time


def watched_stacks(stacks: Iterable[StackResult]) -> frozenset[str]:
    """Return the names of stacks whose state matters to a change elsewhere. Pure."""
    all_stacks = list(stacks)
    return frozenset(
        {stack.name for stack in all_stacks if _is_ordered(stack)}.union(*(stack.needs for stack in all_stacks))
    )


def unchanged_stacks(evaluation: Evaluation, chosen: Sequence[ClusterTarget]) -> tuple[ClusterTarget, ...]:
    """Return targets for the clusters that are no part of the run and whose state its stacks depend on. Pure."""
    names = watched_stacks(evaluation.stacks)
    watched = [stack for stack in evaluation.stacks if stack.name in names]
    clusters = {cluster for stack in watched for cluster in stack.clusters} - {target.cluster.name for target in chosen}
    return choose_targets(evaluation, [stack.name for stack in watched], sorted(clusters)) if clusters else ()


def _is_ordered(stack: StackResult) -> bool:
    """Return whether the clusters of the stack change one after the other."""
    return bool(len(stack.rollout.waves) > 1 or (stack.rollout.max_unavailable and len(stack.clusters) > 1))


def is_gated(stack: StackResult, plan: Plan) -> bool:
    """Return whether a plan is a rollout that has a gate to pass. Pure."""
    rollout = stack.rollout
    has_gates = _is_ordered(stack) or stack.needs or rollout.windows or rollout.approve or rollout.freeze
    return bool(has_gates) and is_rollout(stack, plan)


def is_rollout(stack: StackResult, plan: Plan) -> bool:
    """Return whether a plan is a rollout. Pure.

    The correction of drift is none, because git said the same before; nor is leaving a cluster. Of a frozen stack drift
    is not corrected either.
    """
    return not plan.empty and not plan.leaving and (stack.rollout.freeze or drift_error(plan) is None)


@dataclass(slots=True)
class RolloutQueue:
    """Queue of a run's changes. `coming` are all that will ask; each then reports its end with `over`."""

    order: RolloutContext
    standings: dict[StackCluster, RolloutState]
    coming: set[StackCluster]
    look: Look
    tell: Tell
    every: float = LOOK
    _waiting: dict[StackCluster, asyncio.Future[FleetError | None]] = field(default_factory=dict)
    _running: set[StackCluster] = field(default_factory=set)
    _changing: set[StackCluster] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[RolloutQueue]:
        """Answer all that ask, for as long as the block lasts."""
        keeping = asyncio.create_task(self._keep())
        keeping.add_done_callback(self._pass_on)
        try:
            yield self
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    def _pass_on(self, keeping: asyncio.Task[None]) -> None:
        """Raise a bug of the queue in every change that waits for an answer."""
        error = None if keeping.cancelled() else keeping.exception()
        for answer in self._waiting.values() if error else ():
            if error and not answer.done():
                answer.set_exception(error)

    async def turn(self, plan: Plan) -> FleetError | None:
        """Wait until the change may begin; return None, or the error that says why it may not in this run.

        After None the stack counts as being changed, until `over`.
        """
        placement = (plan.stack, plan.cluster)
        stack = self.order.stacks.get(plan.stack)
        if stack is None or not is_gated(stack, plan):
            self._begin(placement, changing=not plan.empty)
            return None
        self.coming.discard(placement)
        answer: asyncio.Future[FleetError | None] = asyncio.get_running_loop().create_future()
        self._waiting[placement] = answer
        self._news.set()
        return await answer

    def over(self, result: Result) -> None:
        """Record that a stack in a cluster is done, whatever its result."""
        pair = (result.stack, result.cluster)
        wrote = pair in self._changing
        self.coming.discard(pair)
        self._running.discard(pair)
        self._changing.discard(pair)
        self._note(pair, state_after(result), anew=wrote)
        self._news.set()

    def _begin(self, pair: StackCluster, *, changing: bool) -> None:
        self.coming.discard(pair)
        self._running.add(pair)
        if changing:
            self._changing.add(pair)
        self._news.set()

    def _note(self, pair: StackCluster, seen: RolloutState, *, anew: bool) -> None:
        before = self.standings.get(pair, UNSEEN)
        self.standings[pair] = keep_since(before, seen, wrote=anew, now=self.order.clock())

    async def _keep(self) -> None:
        again: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(again):
                    await self._news.wait()
            self._news.clear()
            if self.coming:
                continue  # the first that asks need not be the first in order
            decisions = await self._decide()
            soaking = [pair for pair, decision in decisions.items() if decision.soaks and self.order.wait]
            again = min([self.every, *(decisions[pair].again or 0.0 for pair in soaking)]) if soaking else None
            if soaking:
                await self._look_at({pair[0] for pair in soaking})
            elif not self._running and not self._news.is_set():  # else the decisions are out of date
                self._refuse(decisions)

    async def _decide(self) -> dict[StackCluster, GateDecision]:
        """Let each change begin that may; return the decisions on the others."""
        approvals, read_error = await self._read_approvals()
        rollout = CommitRollout(self.order.stacks, self.standings, self._changing, approvals)
        decisions: dict[StackCluster, GateDecision] = {}
        for pair in sorted(self._waiting):
            decision = rollout.may_begin(self.order.stacks[pair[0]], pair[1], now=self.order.clock())
            if decision.goes:
                self._begin(pair, changing=True)
                self._waiting.pop(pair).set_result(None)
            elif decision.asks and read_error is not None:
                self._waiting.pop(pair).set_result(read_error)
            else:
                decisions[pair] = decision
                self.tell(*pair, decision.reason)
        return decisions

    async def _read_approvals(self) -> tuple[Approvals, FleetError | None]:
        """Return the approvals as they are now, if a waiting change needs one; or why they cannot be read."""
        if not any(self.order.stacks[stack].rollout.approve for stack, _ in self._waiting):
            return {}, None
        try:
            return await asyncio.to_thread(self.order.approvals), None
        except FleetError as problem:
            return {}, problem

    async def _look_at(self, stacks: Iterable[str]) -> None:
        """Observe the stacks that soak again: one that is not healthy any more ends the soak."""
        pairs = [
            pair
            for pair, state in self.standings.items()
            if pair[0] in stacks and state.applied and pair not in self._running and pair not in self.order.elsewhere
        ]
        for pair, new_state in zip(pairs, await asyncio.gather(*map(self._observe_state, pairs)), strict=True):
            self._note(pair, new_state, anew=False)

    async def _observe_state(self, pair: StackCluster) -> RolloutState:
        """Return the state of one stack with its health as it is now."""
        before = self.standings[pair]
        try:
            return replace(before, health=await self.look(pair), problem="")
        except FleetError as problem:
            return replace(before, health="Unknown", problem=problem.message)

    def _refuse(self, verdicts: Mapping[StackCluster, GateDecision]) -> None:
        """Refuse all waiting changes: nothing is under way that could change a decision."""
        for pair, decision in verdicts.items():
            stack, cluster = pair
            self._waiting.pop(pair).set_result(WaitingError(cluster, stack, decision.reason))


def describe_rollouts(stacks: Iterable[StackResult], results: Iterable[Result]) -> list[str]:
    """Return a line for each stack that has something to do and whose rollout is not simply at once."""
    changing = {
        result.stack for result in results if result.plan and any(step.verb.writes for step in result.plan.steps)
    }
    lines = ((stack.name, describe_rollout(stack.rollout, stack.name)) for stack in stacks if stack.name in changing)
    return [f"{name}: {text}" for name, text in lines if text]


def describe_rollout(rollout: RolloutData, stack: str) -> str:
    """Describe the rollout, as "wave 1: eu, then wave 2: us-1, us-2 (after fleet approve orders 2)"; "" for at once.

    Clusters in no wave come last, and are named as such: the user may have forgotten one.
    """
    parts = []
    if len(rollout.waves) > 1 or rollout.approve:
        waves = [
            f"wave {number}: {', '.join(names)}"
            + (" (in no wave)" * (rollout.rest and number == len(rollout.waves)))
            + (f" (after fleet approve {stack} {number})" * (number in rollout.approve))
            for number, names in enumerate(rollout.waves, start=1)
        ]
        parts.append(", then ".join(waves))
    elif rollout.max_unavailable and rollout.waves and len(rollout.waves[0]) > rollout.max_unavailable:
        parts.append(f"{', '.join(rollout.waves[0])}, {rollout.max_unavailable} at a time")
    if len(rollout.waves) > 1 and seconds(rollout.soak):
        parts.append(f"each has to stay healthy for {rollout.soak}")
    if rollout.windows:
        parts.append(f"only {' and '.join(rollout.windows)} {rollout.timezone}")
    if rollout.freeze:
        parts.append("frozen: nothing of it is changed")
    return "; ".join(parts)
