"""Carries out the steps of a decision: each an idempotent request, guarded by what was looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fleet.errors import ConflictError, FleetError, ResourceError
from fleet.kit.operate.engine import Engine
from fleet.kit.step import Act, Annotate, Apply, Delete, Object, Revert, SetStatus, Step, Take
from fleet.kit.workload.stateful_set import changed
from fleet.kube import objects
from fleet.kube.client.errors import OverloadedError, UnansweredError, UnreachableError, error_text
from fleet.kube.runtime import NotSeenError, Request
from fleet.objects.resource import NEVER, Resource
from fleet_operator.core import kinds
from fleet_operator.core.keys import given_back
from fleet_operator.core.ownership import NotOursError, taken


async def execute(request: Request, engine: Engine[Any, Any], seen: Any, steps: tuple[Step, ...]) -> None:
    for step in steps:
        match step:
            case Apply(manifest=manifest):
                await apply(request, manifest)
            case Delete(object=found):
                await request.write.delete(kinds.of(found), found)
            case Revert(stateful_set=found):
                await _revert(request, found)
            case Take():
                await taken(request, step)
            case Annotate(annotations=annotations):
                await _annotate(request, engine.resource, annotations)
            case SetStatus(object=found, status=status):
                await request.write.status(kinds.of(found), found, dict(status))
            case Act():
                await engine.act(seen, step, partial(request.client.guard.check, step.what, str(request.name)))
        if step.reason:
            request.event(step.reason, step.note, warning=step.reason in WARNINGS)


APP = "fleet.dev/app"  # the label that says whose an object is
ROLL_MANAGER = "fleet-roll"  # the field manager of the word that asks for a roll, also of earlier releases
WARNINGS = frozenset(
    {
        "RollFailed",
        "RollingBack",
        "NoSpace",
        "MemberReplaced",
        "ForcingQuorum",
        "OperationFailed",
        "OperationRefused",
    }
)


@dataclass(frozen=True, slots=True)
class Unapplied:
    """An object beside the members that the API server did not take, or that is not the app's."""

    object: str  # its kind and name
    problem: FleetError

    def __str__(self) -> str:
        return f"{self.object} is refused: {self.problem.message}"

    @property
    def may_settle(self) -> bool:
        """Tell whether a later reconcile may find it taken though nobody changes anything.

        It changed a moment ago, its kind is not listed yet, or the API server, or a webhook that it asks, is busy or
        away.
        """
        brief = (ConflictError, OverloadedError, UnansweredError, NotSeenError)
        return isinstance(self.problem, brief) and not isinstance(self.problem, NotOursError)


async def attach(request: Request, manifests: Iterable[Object]) -> list[Unapplied]:
    """Apply what stands beside the members, and return what was refused: members are looked after all the same.

    A failure that the API server answers with is a refusal, too: one kind may have a webhook that is down. No more of
    that kind is sent then: a certificate may be signed by a CA that would be kept nowhere, and each try takes its time.
    Raise UnreachableError where the API server gives no answer: then it takes nothing else either.
    """
    refused = []
    failed_kinds = set[str]()
    for manifest in manifests:
        if manifest["kind"] in failed_kinds:
            continue
        try:
            await apply(request, manifest)
        except UnreachableError:
            raise
        except FleetError as problem:
            refused.append(Unapplied(f"{manifest['kind']} {manifest['metadata']['name']}", problem))
            if isinstance(problem, (UnansweredError, OverloadedError)):
                failed_kinds.add(manifest["kind"])
    return refused


async def detach(request: Request, objects: Iterable[Object]) -> list[Unapplied]:
    """Delete what may be in the way of looking after members, and return what was refused."""
    refused = []
    for found in objects:
        try:
            await request.write.delete(kinds.of(found), found)
        except UnreachableError:
            raise
        except FleetError as problem:
            refused.append(Unapplied(f"that {found['kind']} {found['metadata']['name']} goes", problem))
    return refused


async def apply(request: Request, manifest: Object) -> None:
    """Make it so. What is not in our cache is created, and never taken over: it would be somebody else's.

    With a UID it is of what an engine looked at and knows to be the app's, wherever it looked.
    """
    resource, own = kinds.of(manifest), manifest["metadata"]
    if "uid" in own:
        await request.write.apply(resource, manifest)
        return
    cached = request.cache(resource).get(own["namespace"], own["name"])
    if cached is not None:
        whose = cached["metadata"].get("labels", {}).get(APP)
        if whose != own.get("labels", {}).get(APP, whose):
            problem = f"{resource.kind} {own['name']} exists and is of the app {whose}"
            raise NotOursError(problem, hint="give the app another name")
        bound = {**manifest, "metadata": {**own, "uid": cached["metadata"]["uid"]}}
        await request.write.apply(resource, bound)
        return
    try:
        await request.write.apply(resource, {**manifest, "metadata": {**own, "resourceVersion": NEVER}})
    except ConflictError as problem:
        found = await objects.get(request.client, resource, own["namespace"], own["name"])
        if found is not None and _ours(found, own):
            raise  # made by us a moment ago, and the cache has not heard of it: the next pass will
        if found is not None and given_back(request, found):
            await request.write.apply(resource, {**manifest, "metadata": {**own, "uid": found["metadata"]["uid"]}})
            return
        managers = ", ".join(objects.managers(found)) if found else "somebody"
        raise NotOursError(
            f"{resource.kind} {own['name']} exists and is not of this app; it is managed by {managers}",
            hint="delete or rename it, or give the app another name",
        ) from problem


async def _annotate(request: Request, resource: Resource, annotations: Mapping[str, str]) -> None:
    """Annotate the app's own resource, as a field manager that has nothing but these."""
    live = request.object
    if live is None:
        raise ConflictError(f"{resource.kind} {request.name} is gone")
    own = {name: live["metadata"][name] for name in ("name", "namespace")}
    manifest = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**own, "annotations": dict(annotations)},
    }
    answer = await objects.apply(
        request.client, resource, manifest, force=True, manager=ROLL_MANAGER, uid=live["metadata"]["uid"]
    )
    if answer.status >= 300:
        raise ConflictError(f"{resource.kind} {request.name} changed meanwhile: {error_text(answer.body)}")


def _ours(found: Object, wanted: dict[str, Any]) -> bool:
    labels = found["metadata"].get("labels", {})
    return all(labels.get(name) == value for name, value in wanted.get("labels", {}).items())


async def _revert(request: Request, found: Object) -> None:
    """Give back the template of the revision that the StatefulSet calls its current one."""
    own = found["metadata"]
    name = found["status"]["currentRevision"]
    revision = await objects.get(request.client, kinds.REVISIONS, own["namespace"], name)
    if revision is None:
        raise ResourceError(f"the template that {own['name']} had before is not kept any more: {name} is gone")
    template = revision["data"]["spec"]["template"]
    template.pop("$patch", None)
    count = int(found["spec"]["replicas"])
    await apply(request, changed(found, template=template, partition=count))
