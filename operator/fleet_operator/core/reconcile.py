"""One pass over one app: look, decide, take one step, report. The same for every engine."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleet.errors import AccessError, ConfigurationError, FleetError
from fleet.kit.observe.world import World, is_leaving, when
from fleet.kit.operate.engine import Engine, Report
from fleet.kit.operate.report import LONGEST, known_backup, status
from fleet.kit.operate.teardown import torn_down
from fleet.kit.order import Concern, diagnose
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.step import Decision, NotYetError, Object, State, blocked
from fleet.kit.workload.volumes import known_hosts
from fleet.kube.runtime import NoRightsError, NotLeadingError, Request, Result, TerminalError
from fleet_operator.core import kinds
from fleet_operator.core.execute import Unapplied, attach, detach, execute
from fleet_operator.core.explain import Explanations
from fleet_operator.core.foreign import foreign
from fleet_operator.core.keys import unseen
from fleet_operator.core.operations import (
    answer,
    answer_unobserved,
    answer_without_app,
    asked_of,
    forget_operations,
)
from fleet_operator.core.outlive import outlived
from fleet_operator.core.ownership import NotOursError
from fleet_operator.core.release import is_abandoned, is_asked, released, taken_back
from fleet_operator.core.sight import hidden_at_end, owned_if_seen
from fleet_operator.core.teardown import definition_is_leaving, has_finalizer, pause, with_finalizer
from fleet_operator.core.volumes import waited_for

TRIES = 3  # failures of a step in a row until an app that is on its way is called degraded for them
LASTING = 60.0  # seconds until a refusal that may settle by itself makes an app degraded; webhooks restart in less
ATTACHED = "Attached"  # the condition that tells since when something is refused

log = logging.getLogger(__name__)


class Reconciler:
    """`Reconciler(engine, images)` is the reconcile function of the engine's controller. `images` and `permissions` are
    those that the engine was made with, as explanations say.
    """

    def __init__(
        self, engine: Engine[Any, Any], images: Mapping[str, str] | None = None, permissions: Permissions = DEFAULT
    ) -> None:
        self.engine = engine
        self._explanations = Explanations(engine, images or {}, permissions)

    async def __call__(self, request: Request) -> Result | None:
        manifest = request.object
        if manifest is None:
            await self.engine.forget(request.name)
            self._explanations.forget(request.name)
            await answer_without_app(request, self.engine, _now())
            return None
        try:
            return await self._look(request, manifest)
        except (FleetError, TerminalError, NotLeadingError, TimeoutError):
            raise
        except Exception as problem:  # what is odd about one app is that app's trouble; the controller logs it
            words = f"the operator failed on what it found: {type(problem).__name__}: {str(problem)[:300]}"
            log.info("%s: %s", request.name, words)
            decision = Decision(State.UNCERTAIN, "OperatorFailed", words)
            await self._report(request, manifest, decision, Report(), "")
            request.event(decision.reason, decision.message, warning=True)
            raise

    async def _look(self, request: Request, manifest: dict[str, Any]) -> Result | None:
        try:
            app = self.engine.app.from_manifest(manifest)
        except ConfigurationError as problem:
            await self._report_unobserved(request, manifest, blocked("Invalid", str(problem)), "")
            raise TerminalError(str(problem)) from problem
        if request.blocked is not None:
            await self._report_unobserved(request, manifest, _unseen(request, request.blocked), app.endpoint)
            return Result(15.0)
        if is_leaving(manifest):
            return await self._end(request, manifest, app)
        if not app.paused and is_abandoned(manifest, _now()):
            await taken_back(request, self.engine.resource, manifest)
            return Result(0.2)
        return await self._pass(request, manifest, app)

    async def _pass(self, request: Request, manifest: dict[str, Any], app: Any) -> Result:
        engine = self.engine
        paused = bool(app.paused)
        if not paused and not has_finalizer(manifest):
            manifest = await request.write.apply(engine.resource, with_finalizer(manifest, present=True))
        problem: FleetError | None = None
        try:
            others = await foreign(request.client, app.namespace, engine.found_sets(app, self._world(request)))
            world = self._world(request, others)
            others += await unseen(request, engine.keys(app, world), world.all("Secret"))
            others += await waited_for(request.client, world)
        except AccessError as denied:
            await self._report_unobserved(request, manifest, blocked("NoRights", str(denied)), app.endpoint)
            return Result(15.0)
        world = self._world(request, others)
        refused = [] if paused else await self._surround(request, app, world)
        taken = next((one.problem for one in refused if isinstance(one.problem, NotOursError)), None)
        if taken is not None and not world.all("StatefulSet"):  # nothing is begun among what is somebody else's
            decision = blocked("NotOurs", str(taken))
            await self._report_unobserved(request, manifest, decision, app.endpoint)
            request.event(decision.reason, decision.message, warning=True)
            return Result(decision.after)
        seen = await engine.observe(app, self._world(request, others))
        refused += [] if paused else await attach(request, engine.attachments(seen))
        concern, decision = self._decide(request, manifest, seen, refused)
        report = as_refused(engine.report(seen, known_backup(manifest)), refused)
        await self._report(request, manifest, as_tried(decision, request.attempt), report, app.endpoint)
        await self._explanations.answer(request, app)
        await answer(request, engine, engine.answer_operations(seen, concern, decision))
        if paused:
            return Result(10.0)
        try:
            await execute(request, engine, seen, decision.steps)
        except NotOursError as theirs:
            self._explanations.note_error(request.name, theirs.message)
            decision = blocked("NotOurs", str(theirs))
            request.event(decision.reason, decision.message, warning=True)
            await self._report(request, manifest, decision, report, app.endpoint)
            return Result(decision.after)
        except NotYetError as later:
            self._explanations.note_error(request.name, later.message)
            waiting = Decision(decision.state, decision.reason, f"{decision.message}: {later.message}")
            await self._report(request, manifest, waiting, report, app.endpoint)
            return Result(1.0)
        except NotLeadingError:
            raise
        except FleetError as failed:
            log.info("%s: %s: %s", request.name, decision.reason, failed)
            problem = failed
            self._explanations.note_error(request.name, failed.message)
            decision = as_tried(decision, request.attempt + 1, failed)
        if problem is not None:
            request.event(f"{decision.reason}Failed", str(problem), warning=True)
            await self._report(request, manifest, decision, report, app.endpoint)
            raise problem
        return Result(decision.after)

    async def _surround(self, request: Request, app: Any, world: World) -> list[Unapplied]:
        """Remove what may be in the way of members, apply what stands around them, and return what was refused."""
        refused = await detach(request, self.engine.hindrances(app, world))
        return [*refused, *await attach(request, self.engine.surroundings(app, world, _now()))]

    def _decide(
        self, request: Request, manifest: dict[str, Any], seen: Any, refused: Sequence[Unapplied]
    ) -> tuple[Concern | None, Decision]:
        """Return what is decided of what was observed and about which concern, and keep it for those who ask why."""
        refused_for = unattached_for(manifest, _now())
        for refusal in refused:
            if is_lasting(refusal, refused_for):
                request.event("Refused", str(refusal), warning=True)
        concern, decision = diagnose(self.engine.concerns(seen), self.engine.at_rest(seen))
        self._explanations.note(request.name, seen, concern, decision, "; ".join(map(str, refused)))
        return concern, as_attached(decision, refused, refused_for)

    async def _end(self, request: Request, manifest: dict[str, Any], app: Any) -> Result | None:
        if not has_finalizer(manifest):
            return None
        try:
            released_by_its_kind = await definition_is_leaving(request, self.engine)
        except AccessError as refused:  # nobody asked for an end of the app then, for all that is known
            await self._report(request, manifest, blocked("NoRights", str(refused)), Report(), app.endpoint)
            return Result(15.0)
        if released_by_its_kind:
            request.event("Released", "its definition is being deleted; the app runs on without an operator")
        elif is_asked(manifest):
            request.event("Released", "it is given back; all of it runs on without an operator")
            if not await released(request, self.engine):
                return Result(pause(manifest, 0.5, _now()))
        elif not app.paused:
            if (problem := hidden_at_end(request, app)) is not None:
                await self._report_unobserved(request, manifest, _unseen(request, problem), app.endpoint)
                return Result(pause(manifest, 0.5, _now()))
            if (self.engine.keeps_data(app) or app.adoption is not None) and not await outlived(request):
                return Result(pause(manifest, 0.5, _now()))
            decision = torn_down(self.engine, app, self._world(request))
            if decision is not None:
                await execute(request, self.engine, None, decision.steps)
                return Result(pause(manifest, decision.after, _now()))
        await forget_operations(request, self.engine)
        await request.write.apply(self.engine.resource, with_finalizer(manifest, present=False))
        await self.engine.forget(request.name)
        return None

    def _world(self, request: Request, others: Sequence[Object] = ()) -> World:
        """Return what the caches have of the app, and `others`: what it took over and no cache has."""
        found = [one for resource in kinds.children(self.engine) for one in request.owned(resource)]
        found += [one for resource in kinds.SPARED for one in owned_if_seen(request, resource)]
        found += [*asked_of(request), *others]
        return World.of(found, known_hosts(list(request.cache(kinds.NODES))), _now())

    async def _report(
        self, request: Request, manifest: dict[str, Any], decision: Decision, report: Report, endpoint: str
    ) -> None:
        found = request.object or manifest
        said = status(as_decided(found, manifest), decision, report, endpoint, _now())
        await request.write.status(self.engine.resource, found, said)

    async def _report_unobserved(
        self, request: Request, manifest: dict[str, Any], decision: Decision, endpoint: str
    ) -> None:
        """Report of an app that could not be looked at, also to those who asked for something."""
        await self._report(request, manifest, decision, Report(), endpoint)
        await answer_unobserved(request, self.engine, decision, _now())


def unattached_for(manifest: dict[str, Any], now: datetime.datetime) -> float:
    """Return for how many seconds the app's status has said that something is refused; 0 if it does not say so."""
    conditions = manifest.get("status", {}).get("conditions", ())
    since = [
        str(one["lastTransitionTime"]) for one in conditions if (one["type"], one["status"]) == (ATTACHED, "False")
    ]
    return max(((now - when(time)).total_seconds() for time in since), default=0.0)


def is_lasting(refusal: Unapplied, refused_for: float) -> bool:
    return refused_for >= LASTING or not refusal.may_settle


def as_attached(decision: Decision, refused: Sequence[Unapplied], refused_for: float) -> Decision:
    """Return what is reported of an app that has all its members and not all that belongs to them.

    It is degraded, but not for a refusal that the next reconcile may settle: until that has lasted for a while the app
    is on its way, and is looked at soon. What is under way goes on.
    """
    if not refused or decision.state is not State.OK:
        return decision
    decision = replace(decision, reason="Refused", message="; ".join(map(str, refused)))
    if any(is_lasting(refusal, refused_for) for refusal in refused):
        return replace(decision, state=State.DEGRADED)
    return replace(decision, state=State.PROGRESSING, after=min(decision.after, 2.0))


def as_refused(report: Report, refused: Sequence[Unapplied]) -> Report:
    """Return the status with what the API server did not take, as a condition."""
    if not refused:
        return report
    condition = (ATTACHED, "False", "Refused", "; ".join(map(str, refused))[:LONGEST])
    return replace(report, conditions=(*report.conditions, condition))


def as_tried(decision: Decision, attempt: int, problem: FleetError | None = None) -> Decision:
    """Return what is reported of a decision that is tried so often, and of which the last try met `problem`.

    A busy member and a server that does not answer are part of an operation, until it fails again and again.
    """
    is_patient = decision.state is State.PROGRESSING and attempt <= TRIES
    if problem is None and (is_patient or decision.state is not State.PROGRESSING or not decision.steps):
        return decision
    message = f"{decision.message}: {problem.message if problem else f'{attempt - 1} tries failed'}"
    return replace(decision, state=State.PROGRESSING if is_patient else State.DEGRADED, message=message)


def as_decided(found: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the status as it is now, of what the decision was about: what came since was not looked at yet."""
    generation = manifest["metadata"].get("generation", 0)
    return {**found, "metadata": {**found["metadata"], "generation": generation}, "spec": manifest.get("spec", {})}


def _unseen(request: Request, problem: FleetError) -> Decision:
    if not isinstance(problem, NoRightsError):
        return blocked("NotSeen", problem.message)
    return blocked("NoRights", f"{problem.message}; give them with: fleet operator allow {request.name.namespace}")


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.UTC)
