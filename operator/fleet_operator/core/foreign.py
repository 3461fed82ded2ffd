"""What others made and an app is to become, or became: its StatefulSets, with the pods, claims, ConfigMaps and Secrets
that hang on them. Asked for with each pass, since it does not carry our labels and no cache has it. The same for every
engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fleet.kit.adoption.workload import references
from fleet.kit.step import Object
from fleet.kube.client.client import Client
from fleet.kube.objects import ObjectScope, pages
from fleet.objects.resource import Resource
from fleet_operator.core import kinds


async def foreign(client: Client, namespace: str, names: Sequence[str]) -> list[Object]:
    """Return the StatefulSets of these names with all that hangs on them; nothing of those that are not there.

    Raise AccessError where something of it may not be seen.
    """
    sets = [found for name in names if (found := await _get(client, kinds.STATEFUL_SETS, namespace, name)) is not None]
    if not sets:
        return []
    named = {
        (resource, one): None  # two StatefulSets may read the same
        for found in sets
        for resource in (kinds.CONFIG_MAPS, kinds.SECRETS)
        for one in sorted(references(found["spec"]["template"], resource.kind))
    }
    pods = await asyncio.gather(*(_pods(client, found) for found in sets))
    claims = await _claims(client, namespace, sets)
    others = await asyncio.gather(*(_get(client, resource, namespace, one) for resource, one in named))
    return [*sets, *(pod for some in pods for pod in some), *claims, *(one for one in others if one is not None)]


def is_claim_of(found: Object, name: str) -> bool:
    """Tell whether a StatefulSet made it, or would use it. Also of pods that it has no more, or not yet."""
    templates = [one["metadata"]["name"] for one in found["spec"].get("volumeClaimTemplates") or ()]
    begin, _, number = name.rpartition("-")
    return number.isdecimal() and begin in [f"{template}-{found['metadata']['name']}" for template in templates]


async def _claims(client: Client, namespace: str, sets: Sequence[Object]) -> list[Object]:
    every = [claim async for page in pages(client, ObjectScope(kinds.CLAIMS, namespace)) for claim in page["items"]]
    mine = [claim for claim in every if any(is_claim_of(found, claim["metadata"]["name"]) for found in sets)]
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim} for claim in mine]


async def _pods(client: Client, found: Object) -> list[Object]:
    own = found["metadata"]
    scope = ObjectScope(kinds.PODS, own["namespace"], labels=selector(found["spec"]["selector"]))
    every = [pod async for page in pages(client, scope) for pod in page["items"]]
    return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in every if _owner(pod) == own["uid"]]


def selector(of: Object) -> str:
    """Return a selector as a query has it."""
    parts = [f"{name}={value}" for name, value in sorted((of.get("matchLabels") or {}).items())]
    for one in of.get("matchExpressions") or ():
        values = f"({','.join(one.get('values') or ())})"
        words = {
            "In": f"{one['key']} in {values}",
            "NotIn": f"{one['key']} notin {values}",
            "Exists": one["key"],
            "DoesNotExist": f"!{one['key']}",
        }
        parts.append(words[one["operator"]])
    return ",".join(parts)


def _owner(found: Object) -> str:
    references = found["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in references if one.get("controller")), "")


async def _get(client: Client, resource: Resource, namespace: str, name: str) -> Object | None:
    answer = await client.request("GET", resource.path(namespace, name), expect=(404,))
    if answer.status == 404:
        return None
    found: dict[str, Any] = answer.body
    return found
