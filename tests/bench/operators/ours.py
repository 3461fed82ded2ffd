"""The benchmark's work with fleet.kube.runtime. See go/main.go: this is the same, line by line.

Probes go over the runtime's own connections (`wire`), as its writes do.

python -m tests.bench.operators.ours KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

import fleet.kube.runtime as kube
from fleet.kube.runtime.wire import Sender

THINGS = kube.Resource("bench.fleet.dev", "v1", "Thing", "things", namespaced=True)
CONFIG_MAPS = kube.Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


async def count_healthy(engine: Sender, name: kube.Name, members: int) -> int:
    found = 0
    for member in range(members):
        answer = await engine.send("GET", f"/{name.namespace}/{name.name}/{member}", b"", {}, lambda: None)
        found += bool(orjson.loads(answer.body)["healthy"])
    return found


def main(kubeconfig: str, context: str, namespace: str, engine: str, interval: str) -> None:
    probes = Sender(engine, None, None, {})
    again = kube.Result(requeue_after=float(interval))

    async def reconcile(request: kube.Request) -> kube.Result | None:
        thing = request.object
        if thing is None:
            return None
        spec = thing["spec"]
        await request.write.apply(CONFIG_MAPS, kube.child_of(thing, data={"text": spec["text"]}))
        healthy = spec["members"]
        if "status" in thing:
            healthy = await count_healthy(probes, request.name, spec["members"])
        await request.write.status(THINGS, thing, {"text": spec["text"], "healthy": healthy})
        return again

    things = kube.Controller("thing", THINGS, reconcile, owns=(CONFIG_MAPS,), namespace=namespace, workers=16)
    kube.Operator("fleet", [things]).main(Path(kubeconfig), context)


if __name__ == "__main__":
    main(*sys.argv[1:])
