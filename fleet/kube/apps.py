"""The apps of a cluster: custom resources of every kind that this release knows and the cluster serves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fleet.apps.registry import usable_drivers
from fleet.errors import FleetError
from fleet.kube.client.client import Client
from fleet.kube.discovery import resource_of_definition
from fleet.kube.objects import ObjectScope, get, pages
from fleet.kube.resources import LEASES
from fleet.names import APP_TYPES, OPERATOR
from fleet.objects.resource import Resource
from fleet.render.crd import definition
from fleet.render.operator_rights import SYSTEM


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


def known_types(lease: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return the version of each app type that the operator with this Lease knows, by "Kind.group"; None if the Lease
    does not say it. Pure.
    """
    text = ((lease or {}).get("metadata", {}).get("annotations") or {}).get(APP_TYPES)
    try:
        types = json.loads(text) if text else None
    except ValueError:
        return None
    fits = isinstance(types, dict) and all(isinstance(version, str) for version in types.values())
    return types if fits else None


async def read_known_types(client: Client) -> dict[str, str] | None:
    """Return what the operator of the cluster knows; None if it does not say it, or if the Lease cannot be read."""
    try:
        return known_types(await get(client, LEASES, SYSTEM, OPERATOR))
    except FleetError:
        return None
