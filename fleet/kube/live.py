"""What is really there, for the keys of a plan: each is an object or certainly absent; anything less is an error.

Few requests: one list for many objects of a kind in a namespace, single gets for a few. A list that cannot be
finished, a kind whose server does not answer, a right that is missing: all raise, because a plan that mistakes
"unknown" for "absent" deletes or creates what it should not.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.errors import ResourceError
from fleet.kube.client import Client
from fleet.kube.discovery import Discovery, Resource, defined_by
from fleet.kube.objects import ListExpiredError, Scope, get, pages, without_others_fields
from fleet.kube.together import together
from fleet.model.desired import Key

FEW = 6  # up to this many objects of a kind and namespace are asked for one by one
CROWD = 100  # a namespace with this many strangers per wanted object is not worth listing to its end
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
EXPIRED_LISTS = 3
SETTLING_SECONDS = 10.0

Live = dict[Key, dict[str, Any] | None]


async def read_live(client: Client, keys: Iterable[Key], versions: Mapping[Key, str] | None = None) -> Live:
    """Every key with its object or None. `versions` says in which API version to read; else the preferred one."""
    wanted = list(dict.fromkeys(keys))
    groups, unserved = _grouped(await client.discovery(), wanted, versions or {})
    if unserved and await _come_to_be_served(client, unserved):
        groups, unserved = _grouped(await client.discovery(), wanted, versions or {})
    live: Live = dict.fromkeys(wanted)
    for part in await together(_read_group(client, *group, members) for group, members in groups.items()):
        live.update(part)
    return live


def _grouped(
    discovery: Discovery, keys: list[Key], versions: Mapping[Key, str]
) -> tuple[dict[tuple[Resource, str], list[Key]], set[tuple[str, str]]]:
    """The keys by resource and namespace, and the kinds that the server does not list."""
    groups: dict[tuple[Resource, str], list[Key]] = defaultdict(list)
    unserved: set[tuple[str, str]] = set()
    for key in keys:
        version = versions.get(key)
        resource = (discovery.find(key.group, key.kind, version) if version else None) or discovery.find(
            key.group, key.kind
        )
        if resource is None:
            unserved.add((key.group, key.kind))
        else:
            groups[resource, key.namespace if resource.namespaced else ""].append(key)
    return groups, unserved


async def _read_group(client: Client, resource: Resource, namespace: str, keys: list[Key]) -> Live:
    if len(keys) <= FEW:
        return await _get_each(client, resource, keys)
    for attempt in range(1, EXPIRED_LISTS + 1):
        try:
            return await _list(client, resource, namespace, keys)
        except ListExpiredError:
            if attempt == EXPIRED_LISTS:
                raise ResourceError(f"{client.place}: the list of {resource.plural} expires before its end") from None
    raise AssertionError("unreachable")


async def _get_each(client: Client, resource: Resource, keys: list[Key]) -> Live:
    found = await together(get(client, resource, key.namespace, key.name) for key in keys)
    return dict(zip(keys, found, strict=True))


async def _list(client: Client, resource: Resource, namespace: str, keys: list[Key]) -> Live:
    missing = {key.name: key for key in keys}
    live: Live = {}
    async for page in pages(client, Scope(resource, namespace)):
        for item in page["items"]:
            key = missing.pop(item["metadata"]["name"], None)
            if key is not None:
                # Items of a list do not say what they are.
                live[key] = without_others_fields({"apiVersion": resource.api_version, "kind": resource.kind, **item})
        if not missing:
            return live
        if page["metadata"].get("remainingItemCount", 0) > CROWD * len(missing):
            return {**live, **await _get_each(client, resource, list(missing.values()))}
    return {**live, **dict.fromkeys(missing.values())}


async def _come_to_be_served(client: Client, kinds: set[tuple[str, str]]) -> bool:
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
