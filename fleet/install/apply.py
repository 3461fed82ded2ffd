"""Put objects into a cluster.

Puts objects into a cluster by server-side apply, each only if it is ours or nobody's.

Ours is what this field manager applied before, whoever changed it since. Definitions are also made by syncs and by
`fleet crds`, and have the same content for the same release: those are taken along. A namespace that is there stays as
it is.

Gives the operator its rights in namespaces whose apps come from no stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from fleet.errors import ConflictError, NotFoundError
from fleet.install.manifests import LABELS, MANAGER, VERSION
from fleet.kube import objects
from fleet.kube.client import errors
from fleet.kube.client.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.objects import APPLY, NEVER
from fleet.kube.resources import LEASES, NAMESPACES
from fleet.objects.desired import Key
from fleet.render.operator_rights import RBAC, role_binding
from fleet.version import __version__

Object = dict[str, Any]
What = Literal["created", "updated", "unchanged", "deleted"]
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", True)
ROLE_BINDINGS = Resource(RBAC, "v1", "RoleBinding", "rolebindings", True)
PODS = Resource("", "v1", "Pod", "pods", True)
_RESOURCES = (
    DEFINITIONS,
    NAMESPACES,
    LEASES,
    DEPLOYMENTS,
    ROLE_BINDINGS,
    Resource("", "v1", "ServiceAccount", "serviceaccounts", True),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    Resource(RBAC, "v1", "ClusterRole", "clusterroles", False),
    Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Resource(RBAC, "v1", "Role", "roles", True),
)
RESOURCES = {resource.kind: resource for resource in _RESOURCES}


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one object."""

    key: Key
    what: What


async def apply_all(
    client: Client, manifests: Iterable[Object], *, take_over: bool = False, tell: Callable[[Done], None]
) -> list[Done]:
    """All are looked at before the first is changed: what belongs to somebody else is found while nothing is done."""
    found = [(manifest, await get(client, Key.of(manifest))) for manifest in manifests]
    if not take_over:
        for manifest, there in found:
            _refuse_others(client, manifest, there)
    done = []
    for manifest, there in found:
        done.append(await apply(client, manifest, there))
        tell(done[-1])
    return done


async def get(client: Client, key: Key) -> Object | None:
    return await objects.get(client, RESOURCES[key.kind], key.namespace, key.name)


def is_ours(found: Object) -> bool:
    return any(
        entry.get("manager") == MANAGER and entry.get("operation") == "Apply"
        for entry in found["metadata"].get("managedFields", ())
    )


def owners(found: Object) -> str:
    """Who manages an object, in words."""
    names = {entry.get("manager", "") for entry in found["metadata"].get("managedFields", ())}
    return ", ".join(sorted(names - {MANAGER, ""})) or "nobody that is known"


async def apply(client: Client, manifest: Object, found: Object | None) -> Done:
    """`found` is the object as it is; it is changed only if it is still the same one."""
    key = Key.of(manifest)
    if found is not None and key.kind == NAMESPACES.kind:
        return Done(key, "unchanged")
    bound = {"resourceVersion": NEVER} if found is None else {"uid": found["metadata"]["uid"]}
    path = RESOURCES[key.kind].path(key.namespace, key.name)
    answer = await client.request(
        "PATCH",
        f"{path}?fieldManager={MANAGER}&force={'false' if found is None else 'true'}",
        body=orjson.dumps({**manifest, "metadata": {**manifest["metadata"], **bound}}),
        content_type=APPLY,
        expect=(409,),
    )
    if answer.status == 409:
        # An earlier try of this very request may have been the one, if its answer was lost; else somebody was quicker.
        there = await get(client, key)
        if there is None or not is_ours(there):
            raise errors.of_answer(client.place, errors.asked("PATCH", path), answer.status, answer.body)
        return Done(key, "updated" if found else "created")
    if found is None:
        return Done(key, "created")
    same = answer.body["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    return Done(key, "unchanged" if same else "updated")


def _refuse_others(client: Client, manifest: Object, found: Object | None) -> None:
    key = Key.of(manifest)
    if found is None or key.kind == NAMESPACES.kind:
        return
    if key.kind == DEFINITIONS.kind:
        _refuse_newer(client, key, found)
    if is_ours(found) or (key.kind == DEFINITIONS.kind and _is_definition_of_fleet(found)):
        return
    raise ConflictError(
        f"{client.place}: {key} exists and belongs to {owners(found)}; nothing was changed",
        hint="remove it there, or say --take-over if it shall be fleet's from now on",
    )


def _refuse_newer(client: Client, key: Key, found: Object) -> None:
    version = (found["metadata"].get("annotations") or {}).get(VERSION, "")
    if _numbers(version) > _numbers(__version__):
        raise ConflictError(
            f"{client.place}: {key} is of fleet {version}, and this is the older {__version__}: "
            "fields that came since would be lost",
            hint=f"use fleet {version}; --take-over goes back all the same",
        )


def _is_definition_of_fleet(found: Object) -> bool:
    return bool((found["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") == "fleet")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part)  # type: ignore[index]


async def allow(client: Client, namespaces: Sequence[str], *, take_over: bool, tell: Callable[[Done], None]) -> None:
    for namespace in namespaces:
        if await get(client, Key("", "Namespace", "", namespace)) is None:
            raise NotFoundError(
                f"{client.place}: there is no namespace {namespace!r}",
                hint=f"kubectl create namespace {namespace}{client.place.flag}",
            )
    manifests = [role_binding(namespace) for namespace in namespaces]
    labelled = [{**one, "metadata": {**one["metadata"], "labels": LABELS}} for one in manifests]
    await apply_all(client, labelled, take_over=take_over, tell=tell)
