"""Read live objects for a set of keys.

Kinds that discovery does not list: are they absent, or only too new to be listed? Their definitions decide.

What is really there, for the keys of a plan: each is an object or certainly absent; anything less is an error.

Few requests: one list for many objects of a kind in a namespace, single gets for a few, and for objects scattered over
many namespaces one list of what carries our label, then the rest where its namespace exists. A list that cannot be
finished, a kind whose server does not answer, a right that is missing: all raise, because a plan that mistakes
"unknown" for "absent" deletes or creates what it should not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from fleet.errors import AccessError, ResourceError
from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.kube.discovery import Discovery, resource_of_definition
from fleet.kube.health import related_key
from fleet.kube.objects import ListExpiredError, ObjectScope, drop_other_fields, get, pages, require_absence
from fleet.objects.desired import Key
from fleet.objects.resource import Resource

CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
SETTLING_SECONDS = 10.0


async def wait_until_served(client: Client, kinds: set[tuple[str, str]]) -> bool:
    """Wait until defined kinds that discovery did not list are served: they may have been defined a moment ago.

    Return False if there is no definition either, so that there can be no objects. Raise ResourceError if a kind is
    defined and not served in time.
    """
    deadline = time.monotonic() + SETTLING_SECONDS
    while defined := await _list_defined_kinds(client, kinds):
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


async def _list_defined_kinds(client: Client, kinds: set[tuple[str, str]]) -> set[tuple[str, str]]:
    defined = set()
    async for page in pages(client, ObjectScope(CRDS)):
        for crd in page["items"]:
            defined |= {(resource.group, resource.kind) for resource in resource_of_definition(crd)} & kinds
    return defined


FEW = 6  # up to this many objects of a kind and namespace are asked for one by one
CROWD = 100  # a namespace with this many strangers per wanted object is not worth listing to its end
SCATTERED = 20  # over more namespaces than this, a list of all that is ours is cheaper
OURS = "fleet.dev/stack"
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)
EXPIRED_LISTS = 3

Live = dict[Key, dict[str, Any] | None]


async def read_live(client: Client, keys: Iterable[Key], versions: Mapping[Key, str] | None = None) -> Live:
    """Return every key with its object or None. `versions` has API versions to read in, else the preferred."""
    wanted = list(dict.fromkeys(keys))
    groups, unserved = _group_by_resource(await client.discovery(), wanted, versions or {})
    if unserved and await wait_until_served(client, unserved):
        groups, unserved = _group_by_resource(await client.discovery(), wanted, versions or {})
    reads: list[Coroutine[Any, Any, Live]] = []
    for resource, spaces in groups.items():
        if len(spaces) > SCATTERED:
            reads.append(_read_scattered(client, resource, spaces))
        else:
            reads += [_read_namespace(client, resource, space, members) for space, members in spaces.items()]
    live: Live = dict.fromkeys(wanted)
    for part in await gather(reads):
        live.update(part)
    return live


async def read_each(client: Client, keys: Iterable[Key], versions: Mapping[Key, str] | None = None) -> Live:
    """Return the same, with a request for each object: no list is trusted. Objects of kinds not served are None."""
    wanted = list(dict.fromkeys(keys))
    groups, _ = _group_by_resource(await client.discovery(), wanted, versions or {})
    live: Live = dict.fromkeys(wanted)
    reads = [_get_each(client, resource, members) for resource, spaces in groups.items() for members in spaces.values()]
    for part in await gather(reads):
        live.update(part)
    return live


async def read_whole(client: Client, keys: Iterable[Key]) -> Live:
    """Return objects with all field managers' entries; without those that the API server does not let us see."""
    wanted = list(dict.fromkeys(keys))
    groups, _ = _group_by_resource(await client.discovery(), wanted, {})
    named = [(resource, key) for resource, spaces in groups.items() for members in spaces.values() for key in members]
    read = await gather(_get_whole(client, resource, key) for resource, key in named)
    return {key: live_object for part in read for key, live_object in part.items()}


async def read_around(client: Client, live: Mapping[Key, dict[str, Any] | None]) -> Live:
    """Read the objects by which the health of these is judged, besides themselves; for nearly all there are none.

    Objects that the API server does not let us see are left out.
    """
    keys = {key for live_object in live.values() if (key := related_key(live_object)) is not None}
    return await read_whole(client, keys) if keys else {}


async def _get_whole(client: Client, resource: Resource, key: Key) -> Live:
    answer = await client.request("GET", resource.path(key.namespace, key.name), expect=(403, 404))
    if answer.status == 403:
        return {}
    if answer.status == 404:
        require_absence(client, answer, str(key))
    return {key: None if answer.status == 404 else answer.body}


def _group_by_resource(
    discovery: Discovery, keys: list[Key], versions: Mapping[Key, str]
) -> tuple[dict[Resource, dict[str, list[Key]]], set[tuple[str, str]]]:
    """Return the keys by resource and namespace, and the kinds that the server does not list."""
    kinds: dict[tuple[str, str, str | None], dict[str, list[Key]]] = {}
    for key in keys:
        spaces = kinds.setdefault((key.group, key.kind, versions.get(key)), {})
        spaces.setdefault(key.namespace, []).append(key)
    groups: dict[Resource, dict[str, list[Key]]] = {}
    unserved: set[tuple[str, str]] = set()
    for (group, kind, version), spaces in kinds.items():
        resource = (discovery.find(group, kind, version) if version else None) or discovery.find(group, kind)
        if resource is None:
            unserved.add((group, kind))
            continue
        by_namespace = groups.setdefault(resource, {})
        for space, members in spaces.items():
            by_namespace.setdefault(space if resource.namespaced else "", []).extend(members)
    return groups, unserved


async def _read_namespace(client: Client, resource: Resource, namespace: str, keys: list[Key]) -> Live:
    if len(keys) <= FEW:
        return await _get_each(client, resource, keys)
    live, rest = await _list_keys(client, ObjectScope(resource, namespace), keys)
    return {**live, **await _get_each(client, resource, rest)}


async def _read_scattered(client: Client, resource: Resource, spaces: Mapping[str, list[Key]]) -> Live:
    """Read our objects by label in one list, and those that it lacks by name, where their namespace exists."""
    live: Live = dict.fromkeys(key for keys in spaces.values() for key in keys)
    try:
        ours, _ = await _list_keys(client, ObjectScope(resource, labels=OURS), list(live))
        existing = await _namespaces(client)
    except AccessError:  # rights in single namespaces only
        ours, existing = {}, set(spaces)
    live.update({key: live_object for key, live_object in ours.items() if live_object is not None})
    missing = {space: [key for key in keys if live[key] is None] for space, keys in spaces.items() if space in existing}
    for part in await gather(_read_namespace(client, resource, space, keys) for space, keys in missing.items() if keys):
        live.update(part)
    return live


async def _namespaces(client: Client) -> set[str]:
    return {item["metadata"]["name"] async for page in pages(client, ObjectScope(NAMESPACES)) for item in page["items"]}


async def _get_each(client: Client, resource: Resource, keys: list[Key]) -> Live:
    objects = await gather(get(client, resource, key.namespace, key.name) for key in keys)
    return dict(zip(keys, objects, strict=True))


async def _list_keys(client: Client, scope: ObjectScope, keys: list[Key]) -> tuple[Live, list[Key]]:
    """List the objects; return those of the keys, and the keys that cost less when each is read by itself.

    Where a namespace has very many other objects, the list is not read to its end.
    """
    for attempt in range(1, EXPIRED_LISTS + 1):
        try:
            return await _list_once(client, scope, keys)
        except ListExpiredError:
            if attempt == EXPIRED_LISTS:
                raise ResourceError(
                    f"{client.place}: the list of {scope.resource.plural} expires before its end"
                ) from None
    raise AssertionError("unreachable")


async def _list_once(client: Client, scope: ObjectScope, keys: list[Key]) -> tuple[Live, list[Key]]:
    resource = scope.resource
    missing = {(key.namespace, key.name) if resource.namespaced else ("", key.name): key for key in keys}
    live: Live = {}
    strangers, api_version = 0, resource.api_version
    async for page in pages(client, scope):
        for item in page["items"]:
            metadata = item["metadata"]
            key = missing.pop((metadata.get("namespace", ""), metadata["name"]), None)
            if key is not None:
                # Items of a list do not say what they are.
                item["apiVersion"], item["kind"] = api_version, resource.kind
                live[key] = drop_other_fields(item)
        if not missing:
            return live, []
        # How many are still to come is not said where labels choose: then what has come is taken for it.
        strangers += len(page["items"])
        more = page["metadata"].get("remainingItemCount", strangers - len(live))
        if page["metadata"].get("continue") and more > CROWD * len(missing):
            return live, list(missing.values())
    return {**live, **dict.fromkeys(missing.values())}, []
