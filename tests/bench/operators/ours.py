"""The benchmark's work with fleet.kube.runtime. See go/main.go: this is the same, line by line.

Probes go over aiohttp with the settings that the shipped etcd engine has, writes over the runtime's own connections
(`wire`), as in the operator.

python -m tests.bench.operators.ours KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import orjson

import fleet.kube.runtime as kube

THINGS = kube.Resource("bench.fleet.dev", "v1", "Thing", "things", namespaced=True)
CONFIG_MAPS = kube.Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


class Engine:
    """The connections to the engine, opened in the loop that uses them (as `fleet.apps.etcd.engine.protocol`)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def count_healthy(self, name: kube.Name, members: int) -> int:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=False, limit=0, keepalive_timeout=60.0)
            self._session = aiohttp.ClientSession(
                self._url, connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        found = 0
        for member in range(members):
            path, forever = f"/{name.namespace}/{name.name}/{member}", aiohttp.ClientTimeout(total=None)
            async with (
                asyncio.timeout(2.0),
                self._session.get(path, allow_redirects=False, timeout=forever) as answer,
            ):
                found += bool(orjson.loads(await answer.read())["healthy"])
        return found


def main(kubeconfig: str, context: str, namespace: str, engine: str, interval: str) -> None:
    probes = Engine(engine)
    again = kube.Result(requeue_after=float(interval))

    async def reconcile(request: kube.Request) -> kube.Result | None:
        thing = request.object
        if thing is None:
            return None
        spec = thing["spec"]
        await request.write.apply(CONFIG_MAPS, kube.child_of(thing, data={"text": spec["text"]}))
        healthy = spec["members"]
        if "status" in thing:
            healthy = await probes.count_healthy(request.name, spec["members"])
        await request.write.status(THINGS, thing, {"text": spec["text"], "healthy": healthy})
        return again

    things = kube.Controller("thing", THINGS, reconcile, owns=(CONFIG_MAPS,), namespace=namespace, workers=16)
    kube.Operator("fleet", [things]).main(Path(kubeconfig), context)


if __name__ == "__main__":
    main(*sys.argv[1:])
