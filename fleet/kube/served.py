"""Kinds that discovery does not list: are they absent, or only too new to be listed? Their definitions decide."""

from __future__ import annotations

import asyncio
import time

from fleet.errors import ResourceError
from fleet.kube.client import Client
from fleet.kube.discovery import Resource, defined_by
from fleet.kube.objects import Scope, pages

CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
SETTLING_SECONDS = 10.0


async def come_to_be_served(client: Client, kinds: set[tuple[str, str]]) -> bool:
    """Whether a kind that discovery did not list is there after all: it may have been defined a moment ago.

    False means that there is no definition either, so there can be no objects.
    """
    deadline = time.monotonic() + SETTLING_SECONDS
    while defined := await _defined(client, kinds):
        client.forget_discovery()
        discovery = await client.discovery()
        if all(discovery.find(*kind) for kind in defined):
            return True
        if time.monotonic() > deadline:
            names = ", ".join(f"{kind}.{group}" for group, kind in sorted(defined))
            raise ResourceError(
                f"{client.place}: defined but not served: {names}",
                hint="`kubectl describe crd` says why the server does not accept the definition",
            )
        await asyncio.sleep(0.5)
    return False


async def _defined(client: Client, kinds: set[tuple[str, str]]) -> set[tuple[str, str]]:
    defined = set()
    async for page in pages(client, Scope(CRDS)):
        for crd in page["items"]:
            defined |= {(resource.group, resource.kind) for resource in defined_by(crd)} & kinds
    return defined
