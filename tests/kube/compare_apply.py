"""First sync of many small objects beside a bare aiohttp loop that shares no code with fleet.

    python -m tests.kube.compare_apply KUBECONFIG CONTEXT [OBJECTS] [PAIRS]

Pairs are interleaved, because the machine's mood changes; the ratio is the bare loop's time over fleet's.
"""

from __future__ import annotations

import asyncio
import base64
import resource
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from fleet.kube.client import CONCURRENCY, Client
from tests.kube.one_sync import sync, wanted

PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets", "ServiceAccount": "serviceaccounts", "Service": "services"}


def objects(name: str, count: int) -> Iterator[dict[str, Any]]:
    """A namespace, and four small objects per app in it."""
    labels = {"app.kubernetes.io/managed-by": "fleet", "fleet.dev/stack": name}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    for number in range(count // 4):
        port = {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"app": str(number)}}
        bodies: dict[str, dict[str, Any]] = {
            "ConfigMap": {"data": {"number": str(number), "text": "x" * 100}},
            "Secret": {"stringData": {"password": "secret"}},
            "ServiceAccount": {},
            "Service": {"spec": port},
        }
        for kind, body in bodies.items():
            metadata = {"name": f"app-{number}", "namespace": name, "labels": labels}
            yield {"apiVersion": "v1", "kind": kind, "metadata": metadata, **body}


def connection(kubeconfig: Path, context: str) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Address, TLS and headers, read by hand: client certificates and tokens are all that labs use."""
    document = yaml.safe_load(kubeconfig.read_text())

    def named(part: str, name: str) -> Any:
        return next(one for one in document[part] if one["name"] == name)

    chosen = named("contexts", context)["context"]
    cluster, user = named("clusters", chosen["cluster"])["cluster"], named("users", chosen["user"])["user"]

    def file(of: dict[str, str], field: str) -> str | None:
        if data := of.get(f"{field}-data"):
            with tempfile.NamedTemporaryFile(delete=False) as kept:
                kept.write(base64.b64decode(data))
            return kept.name
        return str(kubeconfig.parent / of[field]) if field in of else None

    tls = ssl.create_default_context(cafile=file(cluster, "certificate-authority"))
    if certificate := file(user, "client-certificate"):
        tls.load_cert_chain(certificate, file(user, "client-key"))
    return cluster["server"], tls, {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}


async def bare(kubeconfig: Path, context: str, name: str, count: int) -> None:
    server, tls, headers = connection(kubeconfig, context)
    connector = aiohttp.TCPConnector(ssl=tls, limit=CONCURRENCY)
    async with aiohttp.ClientSession(server, connector=connector, headers=headers) as session:

        async def one(manifest: dict[str, Any]) -> None:
            space, own = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
            path = f"/api/v1/namespaces/{own}"
            if space:
                path = f"/api/v1/namespaces/{space}/{PLURALS[manifest['kind']]}/{own}"
            async with session.patch(
                f"{path}?fieldManager=bare",
                data=orjson.dumps(manifest),
                headers={"Content-Type": "application/apply-patch+yaml"},
            ) as answer:
                orjson.loads(await answer.read())
                assert answer.status == 201, answer.status

        todo = objects(name, count)
        await one(next(todo))

        async def work() -> None:
            for manifest in todo:
                await one(manifest)

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


async def ours(kubeconfig: Path, context: str, name: str, count: int) -> None:
    async with Client.of(kubeconfig, context) as client:
        outcome = await sync(client, wanted(name, *objects(name, count)))
        assert outcome is None or outcome.ok


def timed(work: Awaitable[None]) -> tuple[float, float]:
    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    async def run() -> None:
        await work

    begun, used = time.perf_counter(), cpu()
    asyncio.run(run())
    return time.perf_counter() - begun, cpu() - used


def main(kubeconfig: str, context: str, count: str = "4000", pairs: str = "7") -> None:
    import fleet.kube.credentials  # noqa: F401 - its import is not what is measured

    ratios = []
    for pair in range(int(pairs)):
        mark = f"{int(time.time()) % 1_000_000}-{pair}"
        where = Path(kubeconfig), context
        bare_time, bare_cpu = timed(bare(*where, f"bare-{mark}", int(count)))
        first_time, first_cpu = timed(ours(*where, f"fleet-{mark}", int(count)))
        again_time, again_cpu = timed(ours(*where, f"fleet-{mark}", int(count)))
        ratios.append(bare_time / first_time)
        print(
            f"bare {bare_time:6.2f} s (CPU {bare_cpu:.2f})   first {first_time:6.2f} s (CPU {first_cpu:.2f})   "
            f"ratio {ratios[-1]:.2f}   unchanged {again_time:.2f} s (CPU {again_cpu:.2f})",
            flush=True,
        )
    print(f"ratio: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
