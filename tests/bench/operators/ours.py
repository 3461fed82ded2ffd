"""The benchmark's work with fleet.kube.runtime. See go/main.go: this is the same, line by line.

Members are asked by the client that the etcd engine ships, for the status that the operator asks them for; writes go
over the runtime's own connections, as in the operator.

python -m tests.bench.operators.ours KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

import fleet.kube.runtime as kube
from fleet.apps.etcd.engine.protocol import Endpoint, Etcd

THINGS = kube.Resource("bench.fleet.dev", "v1", "Thing", "things", namespaced=True)
CONFIG_MAPS = kube.Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


class Engine:
    """The shipped client of members, opened in the loop that uses it. All members are at one address here."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (str(parts.hostname), int(parts.port or 0))
        self._etcd: Etcd | None = None

    async def count_healthy(self, name: kube.Name, members: int) -> int:
        if self._etcd is None:
            self._etcd = await Etcd(None).__aenter__()
        healthy = 0
        for member in range(members):
            status = await self._etcd.status(Endpoint(*self._address, f"{name.name}-{member}"))
            healthy += not status.errors
        return healthy

    async def close(self) -> None:
        if self._etcd is not None:
            await self._etcd.close()


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

    things = kube.Controller(
        "thing", THINGS, reconcile, owns=(CONFIG_MAPS,), namespace=namespace, workers=16, at_end=probes.close
    )
    kube.Operator("fleet", [things]).main(Path(kubeconfig), context)


if __name__ == "__main__":
    main(*sys.argv[1:])
