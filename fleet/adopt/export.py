"""Export of an app: its objects in a cluster as manifests that could be applied again and would change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from fleet.adopt.find import SETS
from fleet.kit.adoption.giveback import RELEASED
from fleet.kit.adoption.hold import before
from fleet.kit.adoption.workload import references
from fleet.kube.client.client import Client
from fleet.kube.objects import ObjectScope, pages
from fleet.objects.resource import Resource

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
_BY_US = ("app.kubernetes.io/managed-by", "fleet-operator")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ASSIGNED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity")


class AppReference(NamedTuple):
    """An app with the names of its StatefulSets: labels are gone as soon as the app is half given back."""

    app: str
    kind: str
    stateful_sets: tuple[str, ...]


async def find_parts(client: Client, namespace: str, app: AppReference) -> list[tuple[Resource, str]]:
    """Return the objects of the app, and the foreign ones that lead to its pods or that these read."""
    lists = await asyncio.gather(*(_list_objects(client, resource, namespace) for resource in KINDS))
    objects_by_kind = dict(zip(KINDS, lists, strict=True))
    sets = [obj for obj in objects_by_kind[SETS] if obj["metadata"]["name"] in app.stateful_sets]
    return [
        (resource, str(obj["metadata"]["name"]))
        for resource in KINDS
        for obj in objects_by_kind[resource]
        if obj in sets or _is_of(obj, app) or any(_serves(obj, resource.kind, stateful_set) for stateful_set in sets)
    ]


async def read_manifests(client: Client, namespace: str, selected: Sequence[tuple[Resource, str]]) -> list[Object]:
    """Return the manifests of these objects as they are now."""
    lists = await asyncio.gather(*(_list_objects(client, resource, namespace) for resource in KINDS))
    names = {(resource.kind, name) for resource, name in selected}
    return [
        export_manifest({"apiVersion": resource.api_version, "kind": resource.kind, **obj})
        for resource, objects in zip(KINDS, lists, strict=True)
        for obj in objects
        if (resource.kind, obj["metadata"]["name"]) in names
    ]


def export_manifest(obj: Object) -> Object:
    """Return an object without what only the server says and without our marks, as it is once it is given back."""
    metadata_fields = {name: value for name, value in obj["metadata"].items() if name not in _SERVER_SIDE}
    labels = {
        name: value
        for name, value in (metadata_fields.pop("labels", None) or {}).items()
        if not name.startswith(_OURS) and (name, value) != _BY_US
    }
    annotations = {
        name: value
        for name, value in (metadata_fields.pop("annotations", None) or {}).items()
        if name != _LAST_APPLIED and not (name.startswith(_OURS) and obj["kind"] == "StatefulSet")
    }
    marks = {"labels": labels, "annotations": annotations}
    metadata = {**metadata_fields, **{name: value for name, value in marks.items() if value}}
    fields = {name: value for name, value in obj.items() if name != "status"}
    if obj["kind"] == "StatefulSet" and APP in (obj["metadata"].get("labels") or {}):
        fields["spec"] = {**obj["spec"], **before(obj)}
    if obj["kind"] == "Service":
        spec = {name: value for name, value in obj["spec"].items() if name not in _ASSIGNED or value == "None"}
        fields["spec"] = spec
    return {"apiVersion": fields.pop("apiVersion"), "kind": fields.pop("kind"), "metadata": metadata} | {
        name: value for name, value in fields.items() if name != "metadata"
    }


def _is_of(obj: Object, app: AppReference) -> bool:
    """Return whether an object is the app's, by its labels; or was given back already, as its annotation says."""
    metadata = obj["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    is_labelled = (labels.get(APP), labels.get(f"{_OURS}kind")) == (app.app, app.kind)
    return is_labelled or annotations.get(RELEASED) == f"{app.kind}/{app.app}"


def _serves(obj: Object, kind: str, stateful_set: Object) -> bool:
    """Return whether a foreign object belongs to the pods of a StatefulSet: it selects them, or they read it."""
    template = stateful_set["spec"]["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if kind == "Service":
        selector = obj["spec"].get("selector") or {}
        return bool(selector) and selector.items() <= labels.items()
    if kind == "PodDisruptionBudget":
        selector = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
        return bool(selector) and selector.items() <= labels.items()
    if kind == "ConfigMap":
        return obj["metadata"]["name"] in references(template, kind)
    return False


async def _list_objects(client: Client, resource: Resource, namespace: str) -> list[Object]:
    return [obj async for page in pages(client, ObjectScope(resource, namespace)) for obj in page["items"]]
