"""How fast is the runtime? Custom resources with one child ConfigMap and one status write each.

    python -m tests.kube.runtime.rate KUBECONFIG CONTEXT [NUMBER]

Two processes, one after the other, do the same writes: one only sends them (`bare`), the other is an operator that
starts, fills its caches and makes all so. Printed are rate, CPU seconds and memory of each, from the start of the
event loop; the rest of the machine decides much of the rate, so the ratio of the two says more.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

import psutil

import fleet.kube.runtime as kube
from fleet.kube.objects import APPLY, apply
from fleet.kube.system import NAMESPACES
from tests.kube.runtime.greeter import CONFIG_MAPS, DEFINITION, GREETINGS, controller, greeting

DEFINITIONS = kube.Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
WORKERS = 16


async def prepare(client: kube.GuardedClient, namespace: str, number: int) -> None:
    await apply(client, DEFINITIONS, DEFINITION, force=True)
    await client.request("POST", NAMESPACES.collection(), body={"metadata": {"name": namespace}})
    await asyncio.sleep(1)  # until the definition is served
    path = GREETINGS.collection(namespace)
    bodies = [greeting(f"g{n}", namespace, str(n)) for n in range(number)]
    await asyncio.gather(*(client.request("POST", path, body=body) for body in bodies))


async def bare(client: kube.GuardedClient, namespace: str, number: int) -> None:
    waiting = iter(range(number))

    async def send(path: str, body: dict[str, Any]) -> None:
        await client.request("PATCH", f"{path}?fieldManager=bare&force=true", body=body, content_type=APPLY)

    async def worker() -> None:
        for n in waiting:
            name, text = f"g{n}", {"text": f"Hello, {n}!"}
            metadata = {"name": name, "namespace": namespace}
            child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": text}
            await send(CONFIG_MAPS.path(namespace, name), child)
            told = {"apiVersion": "runtime.fleet.dev/v1", "kind": "Greeting", "metadata": metadata, "status": text}
            await send(f"{GREETINGS.path(namespace, name)}/status", told)

    await asyncio.gather(*(worker() for _ in range(WORKERS)))


async def operator(client: kube.GuardedClient, namespace: str, number: int) -> None:
    left = number

    async def greet(request: kube.Request) -> None:
        nonlocal left
        found = request.object
        assert found is not None
        text = {"text": f"Hello, {found['spec']['to']}!"}
        await request.write.apply(CONFIG_MAPS, kube.child_of(found, data=text))
        await request.write.status(GREETINGS, found, text)
        left -= 1
        if not left:
            running.stop()

    running = kube.Operator("operator", [controller(namespace, reconcile=greet, workers=WORKERS)])
    await running.run(client)


async def run(what: str, kubeconfig: str, context: str, namespace: str, number: str) -> None:
    async with kube.GuardedClient(kubeconfig=kubeconfig, context=context) as client:
        begun, cpu = time.monotonic(), time.process_time()
        await {"prepare": prepare, "bare": bare, "operator": operator}[what](client, namespace, int(number))
        seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
        memory = psutil.Process().memory_info().rss / 1e6
        if what != "prepare":
            print(f"{what:8} {int(number) / seconds:4.0f}/s  {cpu:5.2f} s CPU  {memory:3.0f} MB", flush=True)


def main(kubeconfig: str, context: str, number: str = "2000") -> None:
    for what in ("bare", "operator"):
        namespace = f"rate-{what}-{os.getpid()}"
        for step in ("prepare", what):
            command = [sys.executable, "-m", "tests.kube.runtime.rate", "run", step, kubeconfig, context]
            subprocess.run([*command, namespace, number], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        asyncio.run(run(*sys.argv[2:]))
    else:
        main(*sys.argv[1:])
