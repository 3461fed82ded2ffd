"""Server-side apply of the operator's objects, each only if it is ours or has no owner; and its rights in namespaces
whose apps come from no stack.

Ours is what this field manager applied before, whichever manager changed it since. Definitions are also made by syncs
and by `fleet crds`, and have the same content for the same release: those are taken along. An existing namespace stays
as it is.
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
from fleet.kube.objects import APPLY
from fleet.kube.resources import LEASES, NAMESPACES
from fleet.objects.desired import Key
from fleet.objects.resource import NEVER, Resource
from fleet.render.operator_rights import RBAC, role_binding
from fleet.version import __version__

Object = dict[str, Any]
Change = Literal["created", "updated", "unchanged", "deleted"]
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
class ObjectOutcome:
    """The outcome of one object."""

    key: Key
    what: Change


async def apply_all(
    client: Client, manifests: Iterable[Object], *, take_over: bool = False, tell: Callable[[ObjectOutcome], None]
) -> list[ObjectOutcome]:
    """Apply all manifests.

    All objects are read before the first is changed: a foreign one is found while nothing is done.
    """
    pairs = [(manifest, await get(client, Key.of(manifest))) for manifest in manifests]
    if not take_over:
        for manifest, live in pairs:
            _refuse_others(client, manifest, live)
    outcomes = []
    for manifest, live in pairs:
        outcomes.append(await apply(client, manifest, live))
        tell(outcomes[-1])
    return outcomes


async def get(client: Client, key: Key) -> Object | None:
    return await objects.get(client, RESOURCES[key.kind], key.namespace, key.name)


def is_ours(live: Object) -> bool:
    return any(
        entry.get("manager") == MANAGER and entry.get("operation") == "Apply"
        for entry in live["metadata"].get("managedFields", ())
    )


def describe_owners(live: Object) -> str:
    """Return the field managers of an object, as text for users."""
    names = {entry.get("manager", "") for entry in live["metadata"].get("managedFields", ())}
    return ", ".join(sorted(names - {MANAGER, ""})) or "nobody that is known"


async def apply(client: Client, manifest: Object, live: Object | None) -> ObjectOutcome:
    """Apply one manifest. `live` is the object as it is; it is changed only if it is still the same one."""
    key = Key.of(manifest)
    if live is not None and key.kind == NAMESPACES.kind:
        return ObjectOutcome(key, "unchanged")
    precondition = {"resourceVersion": NEVER} if live is None else {"uid": live["metadata"]["uid"]}
    path = RESOURCES[key.kind].path(key.namespace, key.name)
    answer = await client.request(
        "PATCH",
        f"{path}?fieldManager={MANAGER}&force={'false' if live is None else 'true'}",
        body=orjson.dumps({**manifest, "metadata": {**manifest["metadata"], **precondition}}),
        content_type=APPLY,
        expect=(409,),
    )
    if answer.status == 409:
        # An earlier try of this very request may have been the one, if its answer was lost; else another was quicker.
        current = await get(client, key)
        if current is None or not is_ours(current):
            raise errors.error_of_response(
                client.place, errors.request_context("PATCH", path), answer.status, answer.body
            )
        return ObjectOutcome(key, "updated" if live else "created")
    if live is None:
        return ObjectOutcome(key, "created")
    is_same = answer.body["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
    return ObjectOutcome(key, "unchanged" if is_same else "updated")


def _refuse_others(client: Client, manifest: Object, live: Object | None) -> None:
    key = Key.of(manifest)
    if live is None or key.kind == NAMESPACES.kind:
        return
    if key.kind == DEFINITIONS.kind:
        _refuse_newer(client, key, live)
    if is_ours(live) or (key.kind == DEFINITIONS.kind and _is_definition_of_fleet(live)):
        return
    raise ConflictError(
        f"{client.place}: {key} exists and belongs to {describe_owners(live)}; nothing was changed",
        hint="remove it there, or say --take-over if it shall be fleet's from now on",
    )


def _refuse_newer(client: Client, key: Key, live: Object) -> None:
    version = (live["metadata"].get("annotations") or {}).get(VERSION, "")
    if _version_numbers(version) > _version_numbers(__version__):
        raise ConflictError(
            f"{client.place}: {key} is of fleet {version}, and this is the older {__version__}: "
            "fields that came since would be lost",
            hint=f"use fleet {version}; --take-over goes back all the same",
        )


def _is_definition_of_fleet(live: Object) -> bool:
    return bool((live["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") == "fleet")


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part)  # type: ignore[index]


async def allow_namespaces(
    client: Client, namespaces: Sequence[str], *, take_over: bool, tell: Callable[[ObjectOutcome], None]
) -> None:
    """Give the operator its rights in these namespaces; raise NotFoundError for one that does not exist."""
    for namespace in namespaces:
        if await get(client, Key("", "Namespace", "", namespace)) is None:
            raise NotFoundError(
                f"{client.place}: there is no namespace {namespace!r}",
                hint=f"kubectl create namespace {namespace}{client.place.flag}",
            )
    manifests = [role_binding(namespace) for namespace in namespaces]
    labelled = [{**manifest, "metadata": {**manifest["metadata"], "labels": LABELS}} for manifest in manifests]
    await apply_all(client, labelled, take_over=take_over, tell=tell)
