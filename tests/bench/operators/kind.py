"""The benchmark's kind: an object wants a text told, and has members that can be probed. And how 2,000 of it come."""

from __future__ import annotations

import asyncio
from typing import Any

from fleet.kube.client.client import Client
from fleet.kube.objects import ObjectScope, pages
from fleet.kube.resources import NAMESPACES
from fleet.objects.resource import Resource

THINGS = Resource("bench.fleet.dev", "v1", "Thing", "things", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
MEMBERS = 3

_STATUS = {"type": "object", "properties": {"text": {"type": "string"}, "healthy": {"type": "integer"}}}
_SPEC = {"type": "object", "properties": {"text": {"type": "string"}, "members": {"type": "integer"}}}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.bench.fleet.dev"},
    "spec": {
        "group": "bench.fleet.dev",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}},
            }
        ],
    },
}


def thing(number: int) -> dict[str, Any]:
    spec = {"text": f"this is number {number}", "members": MEMBERS}
    return {
        "apiVersion": THINGS.api_version,
        "kind": THINGS.kind,
        "metadata": {"name": f"thing-{number:04}"},
        "spec": spec,
    }


async def make(client: Client, namespace: str, count: int) -> None:
    await client.request("POST", NAMESPACES.collection(), body={"metadata": {"name": namespace}}, expect=(409,))
    path = THINGS.collection(namespace)
    await asyncio.gather(*(client.request("POST", path, body=thing(number)) for number in range(count)))


async def remove(client: Client, namespace: str) -> None:
    """All of it, and what was made of it. Whoever ended may have left finalizers behind."""
    async for page in pages(client, ObjectScope(THINGS, namespace)):
        held = [one["metadata"]["name"] for one in page["items"] if one["metadata"].get("finalizers")]
        await asyncio.gather(*(_release(client, namespace, name) for name in held))
    for resource in (THINGS, CONFIG_MAPS):
        while (await client.request("GET", f"{resource.collection(namespace)}?limit=1")).body["items"]:
            await client.request("DELETE", resource.collection(namespace), expect=(504,))  # in time, or again


async def _release(client: Client, namespace: str, name: str) -> None:
    patch = {"metadata": {"finalizers": None}}
    await client.request("PATCH", THINGS.path(namespace, name), body=patch, content_type="application/merge-patch+json")
