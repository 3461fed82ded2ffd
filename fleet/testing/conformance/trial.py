"""A trial: one app in a simulated cluster under the operator's own decisions, which can be killed after any move.

A move is a request that changed something: an object that was created, changed or deleted, or an act of the engine. A
trial that is killed goes on with a new engine object, which knows nothing but what the cluster and the members hold.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import ConflictError, ResourceError
from fleet.kit.observe.world import World
from fleet.kit.operate.engine import Engine
from fleet.kit.operate.teardown import torn_down
from fleet.kit.order import diagnose
from fleet.kit.simulate.cluster import Object, SimulatedCluster
from fleet.kit.step import (
    Act,
    Annotate,
    Apply,
    Decision,
    Delete,
    Revert,
    SetStatus,
    State,
    Step,
    Take,
)
from fleet.kit.workload.stateful_set import changed

ENOUGH = 400  # reconciles until an operation that has not ended never will
RESTING = 3  # reconciles in a row that have nothing to do


class KilledError(Exception):
    """The operator's process is gone."""


class StuckError(AssertionError):
    """An operation did not come to its end."""


@dataclass(slots=True)
class Trial:
    """`make_engine` makes what a new process of the operator has, given the servers: again after each kill."""

    manifest: Object
    members: Any  # the simulated servers
    make_engine: Callable[[Any], Engine[Any, Any]]
    kill_after: int | None = None  # moves from now on
    moves: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # what requests to members ended with
    checks: list[Callable[[Trial], None]] = field(default_factory=list)  # called after every move and tick
    on_move: Callable[[Trial], None] | None = None
    stale: bool = False  # every reconcile sees the objects as they were before the one before it
    cluster: SimulatedCluster = field(init=False)
    engine: Engine[Any, Any] = field(init=False)
    observed: Any = None  # what the last reconcile saw
    _cached: World | None = None

    def __post_init__(self) -> None:
        self.cluster = SimulatedCluster(self.members)
        self.restart()

    def restart(self) -> None:
        """End the operator's process, and begin another one, which knows nothing."""
        self.engine = self.make_engine(self.members)

    def copy(self) -> Trial:
        """Return another trial that goes on from here, with a new process of the operator and no checks."""
        cluster = self.cluster.copy()
        made = Trial(self.manifest, cluster.members, self.make_engine, moves=list(self.moves))
        made.cluster = cluster
        return made

    def change(self, **spec: Any) -> None:
        """Change what git says: fields of the custom resource's spec."""
        self.manifest = copy.deepcopy(self.manifest)
        self.manifest["spec"] |= spec
        self.manifest["metadata"]["generation"] = self.manifest["metadata"].get("generation", 1) + 1

    def settle(self, limit: int = ENOUGH) -> None:
        """Reconcile until nothing is left to do; raise StuckError if that does not come, naming what it waits for."""
        resting = 0
        for _ in range(limit):
            decision = self.reconcile_once()
            resting = resting + 1 if decision is not None and _rests(decision) else 0
            if resting >= RESTING:
                return
            self.tick()
        last = self.decisions[-1]
        raise StuckError(f"after {limit} reconciles: {last.state} {last.reason}: {last.message}\n{self.moves[-12:]}")

    def reconcile_once(self) -> Decision | None:
        """Reconcile once; return the decision, None if the process was killed meanwhile. A new one is there then."""
        try:
            return asyncio.run(self._reconcile())
        except KilledError:
            self.restart()
            return None

    def observe(self) -> Any:
        """Return what an operator would observe now."""
        return asyncio.run(self.engine.observe(self._app(), self.cluster.world()))

    def lose_volume(self, claim: str) -> None:
        """Lose a disk: its pod ends, and it is empty when the pod is back."""
        self.cluster.kill_pod(claim.split("-", 1)[1])
        self.cluster.lose_volume(claim)

    def tear_down(self) -> None:
        """Take the app out of git: do what its deletion does, until nothing is left to do."""
        for _ in range(ENOUGH):
            decision = torn_down(self.engine, self._app(), self.cluster.world())
            if decision is None:
                return
            self.decisions.append(decision)
            for step in decision.steps:
                asyncio.run(self._carry_out(None, step, self.cluster.world()))
            self.tick()
        raise StuckError(f"the app is not gone: {self.decisions[-1].message}")

    async def _reconcile(self) -> Decision:
        app, engine = self._app(), self.engine
        world, now = self._read(), self.cluster.now
        for manifest in engine.surroundings(app, world, now):
            self._apply(manifest, world)
        seen = await engine.observe(app, world if self.stale else self.cluster.world())
        self.observed = seen
        for manifest in engine.attachments(seen):
            self._apply(manifest, world)
        concern, decision = diagnose(engine.concerns(seen), engine.at_rest(seen))
        self.decisions.append(decision)
        try:
            for step in (*engine.answer_operations(seen, concern, decision), *decision.steps):
                await self._carry_out(seen, step, world)
        except (ConflictError, ResourceError) as problem:  # the next reconcile looks again
            self.problems.append(str(problem))
        return decision

    def _read(self) -> World:
        """Return what the operator's caches have; with `stale`, what they had when the last reconcile began."""
        present = self.cluster.world()
        cached, self._cached = self._cached, present
        return cached if self.stale and cached is not None else present

    async def _carry_out(self, seen: Any, step: Step, world: World) -> None:
        match step:
            case Apply(manifest=manifest):
                self._apply(manifest, world)
            case Delete(object=found):
                self.cluster.delete(found)
                self._moved(f"delete {found['kind']} {found['metadata']['name']}")
            case Revert(stateful_set=found):
                template = self.cluster.current_template(found)
                self._apply(changed(found, template=template, partition=int(found["spec"]["replicas"])))
            case Take(object=found, manifest=manifest):
                if manifest is not None:
                    own = {**manifest["metadata"], "uid": found["metadata"]["uid"]}
                    self._apply({**manifest, "metadata": own})
            case Annotate(annotations=annotations):
                self._annotate(annotations)
            case SetStatus(object=found, status=status):
                if self.cluster.set_status(found, status):
                    self._moved(f"status {found['kind']} {found['metadata']['name']}")
            case Act():
                await self.engine.act(seen, step, lambda: None)
                self._moved(f"act {step.what}")

    def _annotate(self, annotations: Mapping[str, str]) -> None:
        """Annotate the custom resource, which leaves its generation as it is."""
        own = self.manifest["metadata"]
        if own.get("annotations", {}) | dict(annotations) != own.get("annotations"):
            self.manifest = copy.deepcopy(self.manifest)
            self.manifest["metadata"]["annotations"] = {**own.get("annotations", {}), **annotations}
            self._moved(f"annotate {' '.join(annotations)}")

    def _apply(self, manifest: Object, world: World | None = None) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        created = world is not None and world.get(kind, name) is None and "uid" not in manifest["metadata"]
        if created and self.cluster.get(kind, name) is not None:
            return  # the API server refuses: what no cache has is created, and never changed
        if self.cluster.apply(manifest):
            self._moved(f"apply {manifest['kind']} {manifest['metadata']['name']}")

    def _moved(self, move: str) -> None:
        self.moves.append(move)
        for check in self.checks:
            check(self)
        if self.on_move is not None:
            self.on_move(self)
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after == 0:
                self.kill_after = None
                raise KilledError(move)

    def tick(self) -> None:
        self.cluster.tick()
        for check in self.checks:
            check(self)

    def _app(self) -> Any:
        return self.engine.app.from_manifest(self.manifest)


def _rests(decision: Decision) -> bool:
    return decision.state is State.OK and not decision.steps
