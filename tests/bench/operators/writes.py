"""The writes alone: no list, no watch, no cache, no queue, no probes. What a client in Python can do at best.

python writes.py KUBECONFIG CONTEXT NAMESPACE COUNT
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(1, str(Path(__file__).parents[1]))
from bare import access  # type: ignore[import-not-found]

AT_ONCE = 16
QUERY = "fieldManager=bare&force=true"


async def main(kubeconfig: str, context: str, namespace: str, count: str) -> None:
    server, tls = access(Path(kubeconfig), context)
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    async with aiohttp.ClientSession(server, connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        numbers = iter(range(int(count)))
        await asyncio.gather(*(worker(session, namespace, numbers) for _ in range(AT_ONCE)))


async def worker(session: aiohttp.ClientSession, namespace: str, numbers: Iterator[int]) -> None:
    for number in numbers:
        name, text = f"thing-{number:04}", f"this is number {number}"
        metadata = {"name": name, "namespace": namespace}
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}
        await send(session, f"/api/v1/namespaces/{namespace}/configmaps/{name}?{QUERY}", child)
        status = {"text": text, "healthy": 3}
        told = {"apiVersion": "bench.fleet.dev/v1", "kind": "Thing", "metadata": metadata, "status": status}
        await send(session, f"/apis/bench.fleet.dev/v1/namespaces/{namespace}/things/{name}/status?{QUERY}", told)


async def send(session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    async with session.patch(path, data=json.dumps(body), headers=headers) as answer:
        answer.raise_for_status()
        await answer.read()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
