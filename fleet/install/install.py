"""Install and uninstall the operator.

Takes the operator out of a cluster. Apps run on without it, and so do definitions and custom resources.

The operator goes first, so that it does not hold its apps again; then they are let go of, so that nobody who deletes
one waits for an operator that is not there; then its rights go.

Install the operator in one cluster, or bring it up to this release: the same thing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import ConflictError, ResourceError
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.install import rights
from fleet.install.apply import PODS, RESOURCES, ROLE_BINDINGS, Done, apply_all, get, is_ours, owners
from fleet.install.manifests import LABELS, SELECTOR, Settings, budget, manifests, settings_of
from fleet.install.status import DEPLOYMENT, rolled_out
from fleet.kube import objects
from fleet.kube.apps import apps
from fleet.kube.client.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.objects import Scope, pages
from fleet.objects.desired import Key
from fleet.render.operator_rights import OPERATOR, SYSTEM

Object = dict[str, Any]
Tell = Callable[[str, str], None]
FINALIZER = "fleet.dev/operator"
JSON_PATCH = "application/json-patch+json"
TRIES = 5


@dataclass(slots=True)
class Removed:
    done: list[Done] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # objects of others, and whose they are
    apps: list[Key] = field(default_factory=list)  # that run on
    unfinished: list[Key] = field(default_factory=list)  # that were being deleted: what they are made of stays


async def remove(client: Client, *, take_over: bool, seconds: float, tell: Tell) -> Removed:
    await _refuse_others(client, take_over=take_over)
    result = Removed()
    for key in (DEPLOYMENT, Key.of(budget())):
        tell("removing", str(key))
        await _remove(client, key, result, take_over=take_over)
    await _until_stopped(client, seconds)
    async for resource, app in apps(client):
        await _let_go(client, resource, app, result)
    async for key in _bindings(client):
        await _remove(client, key, result, take_over=take_over)
    for key in _rights():
        tell("removing", str(key))
        await _remove(client, key, result, take_over=take_over)
    await _remove(client, Key("coordination.k8s.io", "Lease", SYSTEM, OPERATOR), result, take_over=True)
    return result


async def delete(client: Client, key: Key, found: Object) -> bool:
    """Exactly the object that was looked at; False when it is another one by now."""
    answer = await objects.delete(
        client, RESOURCES[key.kind], key.namespace, key.name, uid=found["metadata"]["uid"], propagation="Foreground"
    )
    return answer.status != 409


async def _refuse_others(client: Client, *, take_over: bool) -> None:
    """An operator that something else keeps there would only come back."""
    found = await get(client, DEPLOYMENT)
    if found is not None and not is_ours(found) and not take_over:
        raise ConflictError(
            f"{client.place}: the operator belongs to {owners(found)}; nothing was changed",
            hint="remove it there, or say --take-over",
        )


def _rights() -> Iterator[Key]:
    everywhere, at_home = rights.everywhere(), rights.at_home()
    for role in (rights.bound(everywhere), rights.bound(at_home), everywhere, at_home, rights.in_namespaces()):
        yield Key.of(role)
    yield Key("", "ServiceAccount", SYSTEM, OPERATOR)


async def _bindings(client: Client) -> AsyncIterator[Key]:
    """Those that `fleet operator allow` made; those of stacks go with their stacks."""
    labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
    async for page in pages(client, Scope(ROLE_BINDINGS, labels=labels)):
        for found in page["items"]:
            own = found["metadata"]
            if own["namespace"] != SYSTEM:
                yield Key(ROLE_BINDINGS.group, ROLE_BINDINGS.kind, own["namespace"], own["name"])


async def _remove(client: Client, key: Key, result: Removed, *, take_over: bool) -> None:
    found = await get(client, key)
    if found is None:
        return
    if not is_ours(found) and not take_over:
        result.left.append(f"{key}, which belongs to {owners(found)}")
        return
    if not await delete(client, key, found):
        raise ConflictError(f"{client.place}: {key} was made anew meanwhile", hint="uninstall again")
    result.done.append(Done(key, "deleted"))


async def _until_stopped(client: Client, seconds: float) -> None:
    """Its pods are gone: one that ends may still be in the middle of a pass."""
    labels = ",".join(f"{name}={value}" for name, value in SELECTOR.items())
    deadline = time.monotonic() + seconds
    while True:
        left = [pod async for page in pages(client, Scope(PODS, SYSTEM, labels=labels)) for pod in page["items"]]
        if not left and await get(client, DEPLOYMENT) is None:
            return
        if time.monotonic() > deadline:
            names = ", ".join(pod["metadata"]["name"] for pod in left) or str(DEPLOYMENT)
            raise FleetTimeoutError(f"{client.place}: still there after {seconds:.0f} s: {names}")
        await asyncio.sleep(0.2)


async def _let_go(client: Client, resource: Resource, found: Object, result: Removed) -> None:
    """Take our finalizer away, whoever owns the field; nothing else of the object is touched."""
    own = found["metadata"]
    key = Key(resource.group, resource.kind, own["namespace"], own["name"])
    (result.unfinished if "deletionTimestamp" in own else result.apps).append(key)
    path = resource.path(own["namespace"], own["name"])
    for _ in range(TRIES):
        held = own.get("finalizers") or []
        if FINALIZER not in held:
            return
        position = held.index(FINALIZER)
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": own["uid"]},
            {"op": "test", "path": f"/metadata/finalizers/{position}", "value": FINALIZER},
            {"op": "remove", "path": f"/metadata/finalizers/{position}"},
        ]
        answer = await client.request("PATCH", path, body=patch, content_type=JSON_PATCH, expect=(404, 409, 422))
        if answer.status in (200, 404):
            return
        again = await objects.get(client, resource, own["namespace"], own["name"])
        if again is None or again["metadata"]["uid"] != own["uid"]:
            return
        own = again["metadata"]
    raise ResourceError(f"{client.place}: {key} changes faster than it can be let go of", hint="uninstall again")


@dataclass(frozen=True, slots=True)
class Installed:
    settings: Settings
    done: tuple[Done, ...]
    ready: bool  # it was waited for, and all replicas are


async def install(
    client: Client, settings: Settings, *, take_over: bool, wait: bool, seconds: float, tell: Tell
) -> Installed:
    def applied(one: Done) -> None:
        tell("applying", str(one.key))

    done = await apply_all(client, manifests(settings), take_over=take_over, tell=applied)
    if settings.replicas == 1:  # from before, when there were more
        done += await _without_budget(client)
    if wait:
        await rolled_out(client, seconds=seconds, tell=tell)
    return Installed(settings, tuple(done), ready=wait)


async def settings_now(client: Client) -> Settings | None:
    """What is installed, if it is ours."""
    found = await get(client, DEPLOYMENT)
    return settings_of(found) if found is not None and is_ours(found) else None


async def _without_budget(client: Client) -> list[Done]:
    key = Key.of(budget())
    found = await get(client, key)
    if found is None or not is_ours(found):
        return []
    if not await delete(client, key, found):
        raise ConflictError(f"{client.place}: {key} was changed meanwhile", hint="install again")
    return [Done(key, "deleted")]
