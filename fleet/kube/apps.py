"""The apps of a cluster: custom resources of every kind that this release knows and the cluster serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fleet.apps.registry import usable_drivers
from fleet.kube.client.client import Client
from fleet.kube.discovery import resource_of_definition
from fleet.kube.objects import ObjectScope, pages
from fleet.objects.resource import Resource
from fleet.render.crd import definition


async def apps(
    client: Client, *, namespace: str = "", labels: str = "", name: str = ""
) -> AsyncIterator[tuple[Resource, dict[str, Any]]]:
    """Yield the custom resources of every app kind that the cluster serves, each with the resource of its kind.

    `namespace`, `labels` and `name` choose among them; "" chooses all. A kind that the cluster does not define yields
    nothing.
    """
    discovery = await client.discovery()
    for driver in usable_drivers():
        for resource in resource_of_definition(definition(driver)):
            if discovery.find(resource.group, resource.kind, resource.version) is None:
                continue
            scope = ObjectScope(resource, namespace, labels=labels, fields=f"metadata.name={name}" if name else "")
            async for page in pages(client, scope):
                for app in page["items"]:
                    yield resource, app
