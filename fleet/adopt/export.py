"""What an app is made of in its cluster, as manifests that could be applied again and would change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from fleet.adopt.find import SETS
from fleet.apps.held import before
from fleet.apps.workload import references
from fleet.kube.client.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.objects import Scope, pages

Object = dict[str, Any]
KINDS = (
    Resource("", "v1", "Service", "services", True),
    Resource("", "v1", "ConfigMap", "configmaps", True),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    SETS,
    Resource("batch", "v1", "CronJob", "cronjobs", True),
)
_SERVER_SIDE = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences"}
)
_OURS = "fleet.dev/"
APP = f"{_OURS}app"
RELEASED = f"{_OURS}released"  # the annotation of what an app gave back: whose it was
_BY_US = ("app.kubernetes.io/managed-by", "fleet-operator")
_LAST = "kubectl.kubernetes.io/last-applied-configuration"
_GIVEN = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity")


class Whose(NamedTuple):
    """An app, and its StatefulSet by what the resource says: labels are gone as soon as it is half given back."""

    app: str
    kind: str
    stateful_set: str


async def parts(client: Client, namespace: str, whose: Whose) -> list[tuple[Resource, str]]:
    """Which objects: those of the app, and those of others that lead to its pods or that these read."""
    lists = await asyncio.gather(*(_every(client, resource, namespace) for resource in KINDS))
    found = dict(zip(KINDS, lists, strict=True))
    sets = [one for one in found[SETS] if one["metadata"]["name"] == whose.stateful_set]
    return [
        (resource, str(one["metadata"]["name"]))
        for resource in KINDS
        for one in found[resource]
        if one in sets or _is_of(one, whose) or any(_serves(one, resource.kind, of) for of in sets)
    ]


async def manifests(client: Client, namespace: str, wanted: Sequence[tuple[Resource, str]]) -> list[Object]:
    """As they are now."""
    lists = await asyncio.gather(*(_every(client, resource, namespace) for resource in KINDS))
    names = {(resource.kind, name) for resource, name in wanted}
    return [
        plain({"apiVersion": resource.api_version, "kind": resource.kind, **one})
        for resource, objects in zip(KINDS, lists, strict=True)
        for one in objects
        if (resource.kind, one["metadata"]["name"]) in names
    ]


def plain(found: Object) -> Object:
    """Without what only the server says, without our marks, and as it is once it is given back."""
    own = {name: value for name, value in found["metadata"].items() if name not in _SERVER_SIDE}
    labels = {
        name: value
        for name, value in (own.pop("labels", None) or {}).items()
        if not name.startswith(_OURS) and (name, value) != _BY_US
    }
    annotations = {
        name: value
        for name, value in (own.pop("annotations", None) or {}).items()
        if name != _LAST and not (name.startswith(_OURS) and found["kind"] == "StatefulSet")
    }
    said = {"labels": labels, "annotations": annotations}
    metadata = {**own, **{name: value for name, value in said.items() if value}}
    made = {name: value for name, value in found.items() if name != "status"}
    if found["kind"] == "StatefulSet" and APP in (found["metadata"].get("labels") or {}):
        made["spec"] = {**found["spec"], **before(found)}
    if found["kind"] == "Service":
        spec = {name: value for name, value in found["spec"].items() if name not in _GIVEN or value == "None"}
        made["spec"] = spec
    return {"apiVersion": made.pop("apiVersion"), "kind": made.pop("kind"), "metadata": metadata} | {
        name: value for name, value in made.items() if name != "metadata"
    }


def _is_of(found: Object, whose: Whose) -> bool:
    """By its labels; or given back already, which what was made for the app says."""
    own = found["metadata"]
    labels, annotations = own.get("labels") or {}, own.get("annotations") or {}
    labelled = (labels.get(APP), labels.get(f"{_OURS}kind")) == (whose.app, whose.kind)
    return labelled or annotations.get(RELEASED) == f"{whose.kind}/{whose.app}"


def _serves(found: Object, kind: str, of: Object) -> bool:
    """Whether an object of others belongs to the pods of a StatefulSet: it selects them, or they read it."""
    template = of["spec"]["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if kind == "Service":
        selector = found["spec"].get("selector") or {}
        return bool(selector) and selector.items() <= labels.items()
    if kind == "PodDisruptionBudget":
        selector = (found["spec"].get("selector") or {}).get("matchLabels") or {}
        return bool(selector) and selector.items() <= labels.items()
    if kind == "ConfigMap":
        return found["metadata"]["name"] in references(template, kind)
    return False


async def _every(client: Client, resource: Resource, namespace: str) -> list[Object]:
    return [one async for page in pages(client, Scope(resource, namespace)) for one in page["items"]]
