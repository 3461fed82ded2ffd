"""The volumes of pods that no node takes.

Volumes belong to no namespace, so they are asked for by name, and only when it matters. One that may not be seen is one
about which nothing is known.
"""

from __future__ import annotations

import asyncio

from fleet.kit.observe.world import World
from fleet.kit.step import Object
from fleet.kube.client.client import Client
from fleet_operator.core import kinds


async def waited_for(client: Client, world: World) -> list[Object]:
    """Return the volumes that are bound to claims of pods without a node."""
    waiting = [pod for pod in world.all("Pod") if pod["spec"].get("nodeName") is None]
    mounted = [volume for pod in waiting for volume in pod["spec"].get("volumes") or ()]
    claims = [
        world.claim(str(one["persistentVolumeClaim"]["claimName"])) for one in mounted if "persistentVolumeClaim" in one
    ]
    names = sorted({str(name) for claim in claims if claim and (name := claim["spec"].get("volumeName"))})
    found = await asyncio.gather(*(_get(client, name) for name in names))
    return [one for one in found if one is not None]


async def _get(client: Client, name: str) -> Object | None:
    answer = await client.request("GET", kinds.VOLUMES.path("", name), expect=(403, 404))
    return answer.body if answer.status == 200 else None
