"""The order of one run: who begins when, by the same gates as the service.

Every stack in every cluster asks before it writes, and is kept waiting until the gate lets it through, or until nothing
that this run does could open it any more: then it is told so, and the next run goes on from there. What others do (a
person who approves, hours that come) is looked at and not waited for. A soak is waited for, and looked at meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet.errors import FleetError
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import StackCluster
from fleet.plan import Plan
from fleet.plan.drift import drift_error
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout.approvals import Approvals, changes_digest
from fleet.sync.rollout.gates import UNSEEN, GateDecision, RolloutState, decide_gate, state_after
from fleet.sync.targets import ClusterTarget, choose_targets

LOOK = 2.0  # seconds between two looks at what soaks
Look = Callable[[StackCluster], Awaitable[str]]  # the health of a stack in a cluster, now
Tell = Callable[[str, str, str], None]  # stack, cluster, for what it waits


@dataclass(frozen=True, slots=True)
class RolloutContext:
    """What a run goes by."""

    stacks: Mapping[str, StackResult]
    wait: bool = True  # else only what may begin now begins, and no soak is waited for
    approvals: Callable[[], Approvals] = lambda: {}  # read anew each time that somebody asks for one
    bystanders: Sequence[
        ClusterTarget
    ] = ()  # clusters that are looked at and not changed: others have to wait for them
    told: Mapping[StackCluster, StatusRecord] = field(
        default_factory=dict
    )  # by the status branch: since when what is well is so
    elsewhere: Mapping[StackCluster, RolloutState] = field(default_factory=dict)  # of clusters that only agents reach
    clock: Callable[[], float] = time.time


def watched_stacks(stacks: Iterable[StackResult]) -> frozenset[str]:
    """The stacks of which it matters to a change somewhere else how they are. Pure."""
    known = list(stacks)
    return frozenset({one.name for one in known if _is_ordered(one)}.union(*(one.needs for one in known)))


def unchanged_stacks(evaluation: Evaluation, chosen: Sequence[ClusterTarget]) -> tuple[ClusterTarget, ...]:
    """The clusters that are no part of a run, and that its stacks go by all the same. Pure."""
    names = watched_stacks(evaluation.stacks)
    known = [one for one in evaluation.stacks if one.name in names]
    places = {cluster for one in known for cluster in one.clusters} - {one.cluster.name for one in chosen}
    return choose_targets(evaluation, [one.name for one in known], sorted(places)) if places else ()


def _is_ordered(stack: StackResult) -> bool:
    return bool(len(stack.rollout.waves) > 1 or (stack.rollout.max_unavailable and len(stack.clusters) > 1))


def is_gated(stack: StackResult, made: Plan) -> bool:
    """Whether a plan is a rollout: to put back what git said already is none, nor is leaving a cluster. Pure."""
    rollout = stack.rollout
    says = _is_ordered(stack) or stack.needs or rollout.windows or rollout.approve or rollout.freeze
    if made.empty or made.leaving or not says:
        return False
    return rollout.freeze or drift_error(made) is None


@dataclass(slots=True)
class RolloutQueue:
    """The turns of one run. `coming` are all that will ask; whoever has asked tells its end with `over`."""

    order: RolloutContext
    standings: dict[StackCluster, RolloutState]
    coming: set[StackCluster]
    look: Look
    tell: Tell
    every: float = LOOK
    _waiting: dict[StackCluster, asyncio.Future[FleetError | None]] = field(default_factory=dict)
    _running: set[StackCluster] = field(default_factory=set)
    _changing: set[StackCluster] = field(default_factory=set)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[RolloutQueue]:
        """For as long as the block lasts, whoever asks is answered."""
        keeping = asyncio.create_task(self._keep())
        keeping.add_done_callback(self._pass_on)
        try:
            yield self
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    def _pass_on(self, keeping: asyncio.Task[None]) -> None:
        """A mistake in here is one of everybody who waits for an answer."""
        error = None if keeping.cancelled() else keeping.exception()
        for answer in self._waiting.values() if error else ():
            if error and not answer.done():
                answer.set_exception(error)

    async def turn(self, made: Plan) -> FleetError | None:
        """None when it may begin, and from then on it is being changed; else why it does not in this run."""
        pair = (made.stack, made.cluster)
        stack = self.order.stacks.get(made.stack)
        if stack is None or not is_gated(stack, made):
            self._begin(pair, changing=not made.empty)
            return None
        self.coming.discard(pair)
        answer: asyncio.Future[FleetError | None] = asyncio.get_running_loop().create_future()
        self._waiting[pair] = answer
        self._moved.set()
        return await answer

    def over(self, result: Result) -> None:
        """A stack in a cluster has come to its end, whatever that is."""
        pair = (result.stack, result.cluster)
        wrote = pair in self._changing
        self.coming.discard(pair)
        self._running.discard(pair)
        self._changing.discard(pair)
        self._note(pair, state_after(result), anew=wrote)
        self._moved.set()

    def _begin(self, pair: StackCluster, *, changing: bool) -> None:
        self.coming.discard(pair)
        self._running.add(pair)
        if changing:
            self._changing.add(pair)
        self._moved.set()

    def _note(self, pair: StackCluster, seen: RolloutState, *, anew: bool) -> None:
        before = self.standings.get(pair, UNSEEN)
        same = not anew and replace(before, since=None) == replace(seen, since=None)
        self.standings[pair] = replace(seen, since=before.since if same and before.since else self.order.clock())

    async def _keep(self) -> None:
        again: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(again):
                    await self._moved.wait()
            self._moved.clear()
            if self.coming:
                continue  # the first that asks is not the first in order
            verdicts = await self._decide()
            soaking = [pair for pair, one in verdicts.items() if one.soaks and self.order.wait]
            again = min([self.every, *(verdicts[pair].again or 0.0 for pair in soaking)]) if soaking else None
            if soaking:
                await self._look_at({pair[0] for pair in soaking})
            elif not self._running and not self._moved.is_set():  # what came meanwhile may have been heard too early
                self._refuse(verdicts)

    async def _decide(self) -> dict[StackCluster, GateDecision]:
        """Let begin whoever may; the verdicts on the others."""
        approvals, deaf = await self._heard()
        verdicts: dict[StackCluster, GateDecision] = {}
        for pair in sorted(self._waiting):
            verdict = self._asked(pair, approvals)
            if verdict.goes:
                self._begin(pair, changing=True)
                self._waiting.pop(pair).set_result(None)
            elif verdict.asks and deaf is not None:
                self._waiting.pop(pair).set_result(deaf)
            else:
                verdicts[pair] = verdict
                self.tell(*pair, verdict.reason)
        return verdicts

    async def _heard(self) -> tuple[Approvals, FleetError | None]:
        """Approvals as they are now, where somebody asks for one; or why they cannot be read."""
        if not any(self.order.stacks[stack].rollout.approve for stack, _ in self._waiting):
            return {}, None
        try:
            return await asyncio.to_thread(self.order.approvals), None
        except FleetError as problem:
            return {}, problem

    def _asked(self, pair: StackCluster, approvals: Approvals) -> GateDecision:
        stack = self.order.stacks[pair[0]]
        words: Collection[int] = approvals.get((stack.name, changes_digest(stack)), ()) if stack.rollout.approve else ()
        needs = [self.order.stacks[name] for name in stack.needs if name in self.order.stacks]
        return decide_gate(
            stack.name,
            pair[1],
            stack.rollout,
            self._all(stack),
            {one.name: self._all(one) for one in needs},
            approved=words,
            now=self.order.clock(),
        )

    def _all(self, stack: StackResult) -> dict[str, RolloutState]:
        found = {cluster: self.standings.get((stack.name, cluster), UNSEEN) for cluster in stack.clusters}
        return {
            cluster: replace(one, begun=True) if (stack.name, cluster) in self._changing else one
            for cluster, one in found.items()
        }

    async def _look_at(self, stacks: Iterable[str]) -> None:
        """How those that soak are now: one that is ill again ends it."""
        pairs = [
            pair
            for pair, one in self.standings.items()
            if pair[0] in stacks and one.applied and pair not in self._running and pair not in self.order.elsewhere
        ]
        for pair, seen in zip(pairs, await asyncio.gather(*map(self._seen, pairs)), strict=True):
            self._note(pair, seen, anew=False)

    async def _seen(self, pair: StackCluster) -> RolloutState:
        before = self.standings[pair]
        try:
            return replace(before, health=await self.look(pair), problem="")
        except FleetError as problem:
            return replace(before, health="Unknown", problem=problem.message)

    def _refuse(self, verdicts: Mapping[StackCluster, GateDecision]) -> None:
        """Nothing is under way that could change a verdict."""
        for pair, verdict in verdicts.items():
            stack, cluster = pair
            self._waiting.pop(pair).set_result(WaitingError(cluster, stack, verdict.reason))
