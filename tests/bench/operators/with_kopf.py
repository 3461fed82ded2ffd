"""The benchmark's work with Kopf, as its users would write it; it shares no code with fleet.

    python with_kopf.py KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL

Kopf has no client for other kinds, so the child is applied with aiohttp. Changes of children are not watched, and
events are not posted: both would be more work than this. By default it handles all objects at once, each for five
seconds more than it needs, which on a small server ends in time-outs; the limits here did best of those tried.
"""

# mypy: disable-error-code="untyped-decorator"

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp
import kopf  # type: ignore[import-not-found]

sys.path.insert(1, str(Path(__file__).parents[1]))
from bare import access  # type: ignore[import-not-found]

KUBECONFIG, CONTEXT, NAMESPACE, ENGINE, INTERVAL = sys.argv[1:]
KIND = ("bench.fleet.dev", "v1", "things")
sessions: dict[str, aiohttp.ClientSession] = {}


@kopf.on.login()
def login(**given: Any) -> Any:
    return kopf.login_with_kubeconfig(**given)


@kopf.on.startup()
async def start(settings: Any, **_: Any) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.batching.worker_limit = 128
    settings.batching.idle_timeout = 0.2
    server, tls = access(Path(KUBECONFIG), CONTEXT)
    cookies = aiohttp.DummyCookieJar()
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    sessions["server"] = aiohttp.ClientSession(server, connector=connector, cookie_jar=cookies)
    sessions["engine"] = aiohttp.ClientSession(ENGINE, cookie_jar=cookies)


@kopf.on.cleanup()
async def stop(**_: Any) -> None:
    for session in sessions.values():
        await session.close()


@kopf.on.create(*KIND)
@kopf.on.update(*KIND)
async def make(body: Any, spec: Any, name: str, namespace: str, patch: Any, **_: Any) -> None:
    child = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": spec["text"]}, "metadata": {"name": name}}
    kopf.append_owner_reference(child, owner=body)
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager=kopf&force=true"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    async with sessions["server"].patch(path, data=json.dumps(child), headers=headers) as answer:
        answer.raise_for_status()
        await answer.read()
    patch.status["text"] = spec["text"]
    patch.status["healthy"] = spec["members"]


@kopf.timer(*KIND, interval=float(INTERVAL), initial_delay=float(INTERVAL))
async def probe(spec: Any, status: Any, patch: Any, **_: Any) -> None:
    healthy = 0
    for _member in range(spec["members"]):
        async with sessions["engine"].post("/v3/maintenance/status", data=b"{}") as answer:
            healthy += not json.loads(await answer.read()).get("errors")
    if status.get("healthy") != healthy:
        patch.status["healthy"] = healthy


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    os.environ["KUBECONFIG"] = KUBECONFIG
    asyncio.run(kopf.operator(namespaces=[NAMESPACE], standalone=True))
