"""The limit of a sync: a loop over aiohttp that applies rendered objects, and nothing else.

It shares no code with fleet, and does none of its work: no evaluation, no plan, no look at what is there, no conflict
found, no inventory, no order but namespaces first, no health. Server-side apply, as many requests at once as it is
told; the benchmark tries which number is the best on the machine at hand.

    python tests/bench/bare.py KUBECONFIG CONTEXT OBJECTS.json CONCURRENCY

The limit of a sync that changes nothing is to ask for what is there, kind by kind, and to read the answers:

    python tests/bench/bare.py KUBECONFIG CONTEXT list PATH …
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import yaml

PLURALS = {"Namespace": "namespaces", "Etcd": "etcds"}  # the others add an s in small letters


async def apply_all(kubeconfig: Path, context: str, manifests: list[dict[str, Any]], concurrency: int) -> None:
    async with connected(kubeconfig, context) as session:
        waiting = iter([one for one in manifests if one["kind"] != "Namespace"])
        await apply_each(session, iter([one for one in manifests if one["kind"] == "Namespace"]))
        await asyncio.gather(*(apply_each(session, waiting) for _ in range(concurrency)))


async def list_all(kubeconfig: Path, context: str, paths: list[str]) -> None:
    async with connected(kubeconfig, context) as session:
        await asyncio.gather(*(list_one(session, path) for path in paths))


async def list_one(session: aiohttp.ClientSession, path: str) -> None:
    async with session.get(path) as response:
        answer = await response.read()
        if response.status != 200 or not json.loads(answer)["items"]:
            sys.exit(f"{path}: {response.status}, and nothing is there")


def connected(kubeconfig: Path, context: str) -> aiohttp.ClientSession:
    server, tls = access(kubeconfig, context)
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    return aiohttp.ClientSession(server, connector=connector, cookie_jar=aiohttp.DummyCookieJar())


async def apply_each(session: aiohttp.ClientSession, waiting: Any) -> None:
    for manifest in waiting:
        path = path_of(manifest) + "?fieldManager=bare&force=true"
        body = json.dumps(manifest).encode()
        headers = {"Content-Type": "application/apply-patch+yaml"}
        async with session.patch(path, data=body, headers=headers) as response:
            answer = await response.read()
            if response.status not in (200, 201):
                sys.exit(f"{path}: {response.status} {answer.decode()}")


def path_of(manifest: dict[str, Any]) -> str:
    group, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{inside}/{PLURALS.get(kind, kind.lower() + 's')}/{metadata['name']}"


def access(kubeconfig: Path, context: str) -> tuple[str, ssl.SSLContext]:
    """The server of a context, and TLS with the user's certificate, both from data in the kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    found = named(config["contexts"], context)["context"]
    cluster = named(config["clusters"], found["cluster"])["cluster"]
    user = named(config["users"], found["user"])["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as both:  # the standard library takes them from files only
        both.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        both.flush()
        tls.load_cert_chain(both.name)
    return cluster["server"], tls


def named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


if __name__ == "__main__":
    where, what = (Path(sys.argv[1]), sys.argv[2]), sys.argv[3]
    if what == "list":
        asyncio.run(list_all(*where, sys.argv[4:]))
    else:
        asyncio.run(apply_all(*where, json.loads(Path(what).read_bytes()), int(sys.argv[4])))
