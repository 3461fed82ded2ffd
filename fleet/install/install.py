"""Installation and removal of the operator. To install it and to bring it up to this release is the same.

Apps run on when the operator is removed, and so do definitions and custom resources. The operator goes first, so that
it does not hold its apps again; then they are released, so that a user who deletes one does not wait for an operator
that is gone; then its rights go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fleet.apps.registry import drivers
from fleet.errors import ConflictError, ResourceError
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.install import rights
from fleet.install.apply import PODS, RESOURCES, ROLE_BINDINGS, ObjectOutcome, apply_all, describe_owners, get, is_ours
from fleet.install.manifests import LABELS, SELECTOR, InstallOptions, budget, manifests, settings_of
from fleet.install.status import DEPLOYMENT, wait_until_rolled_out
from fleet.kube import objects
from fleet.kube.apps import apps
from fleet.kube.client.client import Client
from fleet.kube.objects import ObjectScope, pages
from fleet.objects.desired import Key
from fleet.objects.resource import Resource
from fleet.render.operator_rights import OPERATOR, SYSTEM

Object = dict[str, Any]
Tell = Callable[[str, str], None]
FINALIZER = "fleet.dev/operator"
JSON_PATCH = "application/json-patch+json"
MOST_TRIES = 5


@dataclass(slots=True)
class RemoveResult:
    done: list[ObjectOutcome] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # objects of others, and whose they are
    apps: list[Key] = field(default_factory=list)  # that run on
    unfinished: list[Key] = field(default_factory=list)  # that were being deleted: what they are made of stays


async def remove(client: Client, *, take_over: bool, seconds: float, tell: Tell) -> RemoveResult:
    await _refuse_others(client, take_over=take_over)
    drivers()  # raises if a type cannot be loaded: its apps would be overlooked, and stay held for ever
    result = RemoveResult()
    for key in (DEPLOYMENT, Key.of(budget())):
        tell("removing", str(key))
        await _remove_object(client, key, result, take_over=take_over)
    await _wait_until_stopped(client, seconds)
    async for resource, app in apps(client):
        await _release_app(client, resource, app, result)
    async for key in _binding_keys(client):
        await _remove_object(client, key, result, take_over=take_over)
    for key in _role_keys():
        tell("removing", str(key))
        await _remove_object(client, key, result, take_over=take_over)
    await _remove_object(client, Key("coordination.k8s.io", "Lease", SYSTEM, OPERATOR), result, take_over=True)
    return result


async def delete(client: Client, key: Key, live: Object) -> bool:
    """Delete exactly the object that was read; return False when it is another one by now."""
    answer = await objects.delete(
        client, RESOURCES[key.kind], key.namespace, key.name, uid=live["metadata"]["uid"], propagation="Foreground"
    )
    return answer.status != 409


async def _refuse_others(client: Client, *, take_over: bool) -> None:
    """Refuse to remove an operator that another field manager keeps there: it would only come back."""
    live = await get(client, DEPLOYMENT)
    if live is not None and not is_ours(live) and not take_over:
        raise ConflictError(
            f"{client.place}: the operator belongs to {describe_owners(live)}; nothing was changed",
            hint="remove it there, or say --take-over",
        )


def _role_keys() -> Iterator[Key]:
    everywhere, at_home = rights.cluster_role(), rights.lease_role()
    bindings = (rights.bind_role(everywhere), rights.bind_role(at_home))
    for role in (*bindings, everywhere, at_home, rights.apps_role(), rights.people_role()):
        yield Key.of(role)
    yield Key("", "ServiceAccount", SYSTEM, OPERATOR)


async def _binding_keys(client: Client) -> AsyncIterator[Key]:
    """Yield the bindings that `fleet operator allow` made; those of stacks go with their stacks."""
    labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
    async for page in pages(client, ObjectScope(ROLE_BINDINGS, labels=labels)):
        for obj in page["items"]:
            metadata = obj["metadata"]
            if metadata["namespace"] != SYSTEM:
                yield Key(ROLE_BINDINGS.group, ROLE_BINDINGS.kind, metadata["namespace"], metadata["name"])


async def _remove_object(client: Client, key: Key, result: RemoveResult, *, take_over: bool) -> None:
    live = await get(client, key)
    if live is None:
        return
    if not is_ours(live) and not take_over:
        result.left.append(f"{key}, which belongs to {describe_owners(live)}")
        return
    if not await delete(client, key, live):
        raise ConflictError(f"{client.place}: {key} was made anew meanwhile", hint="uninstall again")
    result.done.append(ObjectOutcome(key, "deleted"))


async def _wait_until_stopped(client: Client, seconds: float) -> None:
    """Wait until its pods are gone: one that ends may still be in the middle of a reconcile."""
    labels = ",".join(f"{name}={value}" for name, value in SELECTOR.items())
    deadline = time.monotonic() + seconds
    while True:
        pods = [pod async for page in pages(client, ObjectScope(PODS, SYSTEM, labels=labels)) for pod in page["items"]]
        if not pods and await get(client, DEPLOYMENT) is None:
            return
        if time.monotonic() > deadline:
            names = ", ".join(pod["metadata"]["name"] for pod in pods) or str(DEPLOYMENT)
            raise FleetTimeoutError(f"{client.place}: still there after {seconds:.0f} s: {names}")
        await asyncio.sleep(0.2)


async def _release_app(client: Client, resource: Resource, obj: Object, result: RemoveResult) -> None:
    """Take our finalizer away, whichever manager owns the field; nothing else of the object is touched."""
    metadata = obj["metadata"]
    key = Key(resource.group, resource.kind, metadata["namespace"], metadata["name"])
    (result.unfinished if "deletionTimestamp" in metadata else result.apps).append(key)
    path = resource.path(metadata["namespace"], metadata["name"])
    for _ in range(MOST_TRIES):
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        position = finalizers.index(FINALIZER)
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "test", "path": f"/metadata/finalizers/{position}", "value": FINALIZER},
            {"op": "remove", "path": f"/metadata/finalizers/{position}"},
        ]
        answer = await client.request("PATCH", path, body=patch, content_type=JSON_PATCH, expect=(404, 409, 422))
        if answer.status in (200, 404):
            return
        current = await objects.get(client, resource, metadata["namespace"], metadata["name"])
        if current is None or current["metadata"]["uid"] != metadata["uid"]:
            return
        metadata = current["metadata"]
    raise ResourceError(f"{client.place}: {key} changes faster than it can be let go of", hint="uninstall again")


@dataclass(frozen=True, slots=True)
class InstallResult:
    settings: InstallOptions
    done: tuple[ObjectOutcome, ...]
    ready: bool  # it was waited for, and all replicas are


async def install(
    client: Client, settings: InstallOptions, *, take_over: bool, wait: bool, seconds: float, tell: Tell
) -> InstallResult:
    def tell_applied(outcome: ObjectOutcome) -> None:
        tell("applying", str(outcome.key))

    outcomes = await apply_all(client, manifests(settings), take_over=take_over, tell=tell_applied)
    if settings.replicas == 1:  # from before, when there were more
        outcomes += await _remove_budget(client)
    if wait:
        await wait_until_rolled_out(client, seconds=seconds, tell=tell)
    return InstallResult(settings, tuple(outcomes), ready=wait)


async def read_settings(client: Client) -> InstallOptions | None:
    """Return the settings of the installed operator, if it is ours."""
    live = await get(client, DEPLOYMENT)
    return settings_of(live) if live is not None and is_ours(live) else None


async def _remove_budget(client: Client) -> list[ObjectOutcome]:
    key = Key.of(budget())
    live = await get(client, key)
    if live is None or not is_ours(live):
        return []
    if not await delete(client, key, live):
        raise ConflictError(f"{client.place}: {key} was changed meanwhile", hint="install again")
    return [ObjectOutcome(key, "deleted")]
