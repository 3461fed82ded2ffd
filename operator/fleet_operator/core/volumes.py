"""Where the data of a pod can be that no node takes: its volumes, and on which hosts alone they are reached.

Volumes belong to no namespace, so they are asked for by name, and only when it matters. One that may not be seen is one
about which nothing is known.
"""

from __future__ import annotations

import asyncio

from fleet.kube.client.client import Client
from fleet_operator.core import kinds
from fleet_operator.core.step import Object
from fleet_operator.core.world import World

HOST = "kubernetes.io/hostname"


async def waited_for(client: Client, world: World) -> list[Object]:
    """The volumes that are bound to claims of pods without a node."""
    waiting = [pod for pod in world.all("Pod") if pod["spec"].get("nodeName") is None]
    mounted = [volume for pod in waiting for volume in pod["spec"].get("volumes") or ()]
    claims = [
        world.claim(str(one["persistentVolumeClaim"]["claimName"])) for one in mounted if "persistentVolumeClaim" in one
    ]
    names = sorted({str(name) for claim in claims if claim and (name := claim["spec"].get("volumeName"))})
    found = await asyncio.gather(*(_get(client, name) for name in names))
    return [one for one in found if one is not None]


def hosts(volume: Object) -> frozenset[str] | None:
    """Those from which alone it is reached; None when that is not said by their names: it may be reached elsewhere."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    found: set[str] = set()
    for term in required.get("nodeSelectorTerms") or ():  # one of them is enough
        named = [
            set(one.get("values") or ())
            for one in term.get("matchExpressions") or ()
            if (one["key"], one["operator"]) == (HOST, "In")
        ]
        if not named:
            return None
        found |= set.intersection(*named)
    return frozenset(found) or None


def known_hosts(nodes: list[Object]) -> frozenset[str]:
    """By the name of the node, and by the one that volumes know it by."""
    labels = (str((node["metadata"].get("labels") or {}).get(HOST, "")) for node in nodes)
    return frozenset(name for name in (*labels, *(str(node["metadata"]["name"]) for node in nodes)) if name)


async def _get(client: Client, name: str) -> Object | None:
    answer = await client.request("GET", kinds.VOLUMES.path("", name), expect=(403, 404))
    return answer.body if answer.status == 200 else None
