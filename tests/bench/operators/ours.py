"""The benchmark's work with fleet.kube.runtime. See go/main.go: this is the same, line by line.

python -m tests.bench.operators.ours KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL
"""

from __future__ import annotations

import sys
from pathlib import Path

import aiohttp
import orjson

import fleet.kube.runtime as kube

THINGS = kube.Resource("bench.fleet.dev", "v1", "Thing", "things", namespaced=True)
CONFIG_MAPS = kube.Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


class Prober:
    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._session: aiohttp.ClientSession | None = None

    async def healthy(self, name: kube.Name, members: int) -> int:
        if self._session is None:
            self._session = aiohttp.ClientSession(self._engine, cookie_jar=aiohttp.DummyCookieJar())
        found = 0
        for member in range(members):
            async with self._session.get(f"/{name.namespace}/{name.name}/{member}") as answer:
                found += bool(orjson.loads(await answer.read())["healthy"])
        return found


def main(kubeconfig: str, context: str, namespace: str, engine: str, interval: str) -> None:
    prober = Prober(engine)
    again = kube.Result(requeue_after=float(interval))

    async def reconcile(request: kube.Request) -> kube.Result | None:
        thing = request.object
        if thing is None:
            return None
        spec = thing["spec"]
        await request.write.apply(CONFIG_MAPS, kube.child_of(thing, data={"text": spec["text"]}))
        healthy = spec["members"]
        if "status" in thing:
            healthy = await prober.healthy(request.name, spec["members"])
        await request.write.status(THINGS, thing, {"text": spec["text"], "healthy": healthy})
        return again

    things = kube.Controller("thing", THINGS, reconcile, owns=(CONFIG_MAPS,), namespace=namespace, workers=16)
    kube.Operator("fleet", [things]).main(Path(kubeconfig), context)


if __name__ == "__main__":
    main(*sys.argv[1:])
