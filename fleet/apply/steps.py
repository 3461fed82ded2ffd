"""Execution of one step against the server, and the results of a plan as data.

`Execution.run` never raises for what the server says: the answer is a `Result`. Preconditions are what keeps a plan
honest when the world moved on: a create that finds the object is a conflict and leaves it untouched, an update or
delete of an object that was made anew is refused by its UID.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleet.apply import order
from fleet.apply.inventory import StoredInventory
from fleet.errors import ConflictError, FleetError, NotFoundError, ResourceError
from fleet.kube.client import errors
from fleet.kube.client.client import Client, Response
from fleet.kube.client.errors import UnansweredError, dropped_fields
from fleet.kube.discovery import resource_of_definition
from fleet.kube.health.state import has_condition, status_of
from fleet.kube.objects import apply, delete, get, managers
from fleet.kube.openapi import secret_fields_for
from fleet.names import MANAGER
from fleet.objects.redaction import SecretValues
from fleet.objects.resource import NEVER, Resource
from fleet.plan.step import Step, Verb


class StepState(StrEnum):
    DONE = "done"
    UNCHANGED = "unchanged"  # nothing had to be sent
    CONFLICT = "conflict"  # belongs to another owner; untouched
    FAILED = "failed"
    SKIPPED = "skipped"  # something before it was not done
    PENDING = "pending"  # a delete that was accepted; the object is still going


@dataclass(frozen=True, slots=True)
class StepResult:
    step: Step
    state: StepState
    uid: str = ""
    version: str = ""  # the resourceVersion that the object has by it; "" where it is not certainly as it was applied
    error: FleetError | None = None
    reason: str = ""  # of a skip or a wait
    certain: bool = True  # False: no answer came, so it may have been done

    @property
    def ok(self) -> bool:
        return self.state in (StepState.DONE, StepState.UNCHANGED)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    results: tuple[StepResult, ...]
    stored: StoredInventory

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    def having(self, *states: StepState) -> tuple[StepResult, ...]:
        return tuple(result for result in self.results if result.state in states)

    @property
    def error(self) -> FleetError | None:
        """Return the first failure, for an exit code."""
        return next((result.error for result in self.results if result.error), None)


SERVED_SECONDS = 15.0  # from the moment a definition is accepted until its kind answers, on a slow server
STACK_LABEL = "fleet.dev/stack"


class Execution:
    """Execution of one stack's steps by one client."""

    def __init__(self, client: Client, stack: str, *, delete_seconds: float = 60.0) -> None:
        self._client = client
        self._stack = stack
        self._delete_seconds = delete_seconds

    async def run(self, step: Step) -> StepResult:
        try:
            if step.verb is Verb.DELETE:
                return await self._delete(step)
            return await self._apply(step)
        except ConflictError as error:
            return StepResult(step, StepState.CONFLICT, error=await self._complete_error(error, step))
        except FleetError as error:
            certain = not isinstance(error, UnansweredError)
            return StepResult(step, StepState.FAILED, error=await self._complete_error(error, step), certain=certain)

    async def _complete_error(self, error: FleetError, step: Step) -> FleetError:
        """Add the place in the user's files, and remove secret values that a server quotes in its refusal."""
        if step.manifest:
            secrecy = await secret_fields_for(self._client, [step])
            SecretValues.of([step.manifest], secrecy, public=step.key).redact_error(error)
        return _add_source(error, step)

    async def _apply(self, step: Step) -> StepResult:
        manifest = step.manifest
        if manifest is None:
            raise ResourceError(f"the step to {step.verb} {step.key} has no manifest")
        discovery = await self._client.discovery()
        resource = discovery.resource(step.key, manifest["apiVersion"].rpartition("/")[2])
        if step.verb is Verb.ADOPT and step.take_from:
            await self._release(step, resource)
        response = await self._send(step, resource, manifest)
        live = response.body
        if response.status in (409, 422):
            live = await self._ours_after_all(step, resource, response)
        elif response.status == 404:
            raise NotFoundError(f"{self._client.place}: {step.verb} {step.key}: {errors.error_text(response.body)}")
        elif step.verb is Verb.CREATE and response.status != 201:
            raise ConflictError(f"{step.key} exists in {self._client.place} and was not made by this sync")
        uid = live["metadata"]["uid"]
        if missing := dropped_fields(step.key.group, manifest, live):
            return StepResult(
                step,
                StepState.FAILED,
                uid=uid,
                error=_add_source(_dropped_fields_error(self._client, step, missing), step),
            )
        if (step.key.group, step.key.kind) == order.CRD:
            try:
                await self._until_served(resource, live)
            except FleetError as error:  # it is there, and ours: only not of use yet
                return StepResult(step, StepState.FAILED, uid=uid, error=_add_source(error, step))
        return StepResult(step, StepState.DONE, uid=uid, version=live["metadata"].get("resourceVersion", ""))

    async def _release(self, step: Step, resource: Resource) -> None:
        """Take the fields of former managers before the object is ours.

        Killed in between, the next sync finds it still to be adopted, and does it again.
        """
        from fleet.kube.objects import drop_managers, owned_by  # noqa: PLC0415 - rarely needed

        metadata = {"name": step.key.name, "namespace": step.key.namespace, "uid": step.uid}
        await drop_managers(self._client, resource, {"metadata": metadata}, owned_by(step.take_from), by=MANAGER)

    async def _send(self, step: Step, resource: Resource, manifest: dict[str, Any]) -> Response:
        """Send until it is not a 404 of a kind that is not served yet, on this or another server of the cluster."""
        deadline = time.monotonic() + SERVED_SECONDS
        while True:
            if step.verb is Verb.CREATE:
                response = await apply(self._client, resource, manifest, force=False, resourceVersion=NEVER)
            else:
                # Ours by the inventory, or to be ours by `adopt`: what others changed in our fields is taken back.
                response = await apply(self._client, resource, manifest, force=True, uid=step.uid or "")
            is_unserved = response.status == 404 and "details" not in (
                response.body if isinstance(response.body, dict) else {}
            )
            if not is_unserved or time.monotonic() > deadline:
                return response
            await asyncio.sleep(0.2)

    async def _ours_after_all(self, step: Step, resource: Resource, response: Response) -> dict[str, Any]:
        """Return our own object after a refused apply if the answer of an earlier try was lost; else raise a conflict.

        The conflict names the owner.
        """
        path = resource.path(step.key.namespace, step.key.name)
        refusal = errors.error_of_response(
            self._client.place, errors.request_context("PATCH", path), response.status, response.body
        )
        if step.verb is Verb.CREATE and response.status == 422:
            raise refusal
        live = await get(self._client, resource, step.key.namespace, step.key.name)
        if live is None:
            raise ConflictError(f"{step.key} was deleted in {self._client.place} since the plan was made")
        if step.verb is Verb.CREATE:
            if response.repeated and _is_of(live, self._stack):
                return live
            owners = ", ".join(managers(live)) or MANAGER
            raise ConflictError(
                f"{step.key} exists in {self._client.place} and belongs to {owners}; it was not touched",
                hint="take it over with opts=Options(adopt=True), or give the object another name",
            )
        if live["metadata"]["uid"] != step.uid:
            owners = ", ".join(managers(live)) or MANAGER
            raise ConflictError(f"{step.key} was deleted and made anew by {owners} since the plan was made")
        raise refusal

    async def _until_served(self, resource: Resource, crd: dict[str, Any]) -> None:
        """Wait until a definition is done: Established, and its path answers, so that its kind can be used."""
        deadline = time.monotonic() + SERVED_SECONDS
        name = crd["metadata"]["name"]
        while not has_condition(crd, "Established"):
            if time.monotonic() > deadline:
                raise ResourceError(f"{self._client.place}: definition {name} is not accepted: {_objections(crd)}")
            await asyncio.sleep(0.05)
            crd = await get(self._client, resource, "", name) or crd
        discovery = await self._client.discovery()
        for defined in resource_of_definition(crd):
            discovery.add(defined)
            while True:
                probe = await self._client.request("GET", f"{defined.collection()}?limit=1", expect=(404, 403))
                if probe.status != 404:  # 403: served, and this right is not needed
                    break
                if time.monotonic() > deadline:
                    raise ResourceError(f"{self._client.place}: definition {name} is accepted but not served")
                await asyncio.sleep(0.05)

    async def _delete(self, step: Step) -> StepResult:
        discovery = await self._client.discovery()
        resource = discovery.find(step.key.group, step.key.kind)
        if resource is None:
            return StepResult(step, StepState.DONE)  # certainly not served: nothing of it is left
        version, uid = step.resource_version, step.uid or ""
        for _ in range(10):
            response = await delete(
                self._client, resource, step.key.namespace, step.key.name, uid=uid, resource_version=version
            )
            if response.status == 404:
                return StepResult(step, StepState.DONE)
            if response.status != 409:
                return await self._until_gone(step, resource, response)
            live = await get(self._client, resource, step.key.namespace, step.key.name)
            if live is None or live["metadata"]["uid"] != uid:
                return StepResult(step, StepState.DONE, reason="it is gone; what is there now is another object")
            if not _is_of(live, self._stack):
                raise ConflictError(f"{step.key} belongs to {', '.join(managers(live)) or 'nobody'} now; left alone")
            version = live["metadata"]["resourceVersion"]  # its status moved, or a label of another manager: still ours
        raise ResourceError(f"{self._client.place}: {step.key} changes faster than it can be deleted")

    async def _until_gone(self, step: Step, resource: Resource, response: Response) -> StepResult:
        """Wait until the object is absent: only that confirms a delete, as finalizers may take their time."""
        body = response.body if isinstance(response.body, dict) else {}
        if body.get("kind") == "Status" and body.get("status") == "Success":
            return StepResult(step, StepState.DONE)
        deadline, pause = time.monotonic() + self._delete_seconds, 0.02
        while True:
            live = await get(self._client, resource, step.key.namespace, step.key.name)
            if live is None or live["metadata"]["uid"] != step.uid:
                return StepResult(step, StepState.DONE)
            if time.monotonic() > deadline:
                blockers = ", ".join(live["metadata"].get("finalizers", ())) or "its grace period"
                return StepResult(step, StepState.PENDING, reason=f"still being deleted, waiting for {blockers}")
            await asyncio.sleep(pause)
            pause = min(2.0, pause * 2)


def _is_of(live: dict[str, Any], stack: str) -> bool:
    """Return whether we applied an object for this stack. Enough only beside the inventory and its UID, never alone."""
    metadata = live["metadata"]
    is_by_us = any(
        entry.get("manager") == MANAGER and entry.get("operation") == "Apply"
        for entry in metadata.get("managedFields", ())
    )
    return is_by_us and metadata.get("labels", {}).get(STACK_LABEL, stack) == stack


def _dropped_fields_error(client: Client, step: Step, missing: list[str]) -> ResourceError:
    return ResourceError(
        f"{client.place} does not keep {', '.join(missing)} of {step.key}: its definition does not declare it",
        hint="is it spelled right? If it is, the definition is older than the manifest, or has to declare it "
        "(or x-kubernetes-preserve-unknown-fields: true)",
        field=missing[0],
    )


def _objections(crd: dict[str, Any]) -> str:
    conditions = status_of(crd).get("conditions") or ()
    return (
        "; ".join(condition.get("message", "") for condition in conditions if condition["status"] != "True")
        or "no reason given"
    )


def _add_source(error: FleetError, step: Step) -> FleetError:
    """Add the place in the user's files that the object comes from."""
    if error.source is None and step.source.file:
        error.source = step.source
    return error
