"""An operator for tests: a Greeting becomes a ConfigMap and a status. The function is the package's own example.

As a program: `python -m tests.kube.runtime.greeter KUBECONFIG CONTEXT NAMESPACE IDENTITY LEASE_SECONDS`; it counts a
beat up in a ConfigMap as long as it leads, ten times a second.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import fleet.kube.runtime as kube

GREETINGS = kube.Resource("runtime.fleet.dev", "v1", "Greeting", "greetings", namespaced=True)
CONFIG_MAPS = kube.Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "greetings.runtime.fleet.dev"},
    "spec": {
        "group": "runtime.fleet.dev",
        "scope": "Namespaced",
        "names": {"kind": "Greeting", "plural": "greetings", "singular": "greeting", "listKind": "GreetingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"to": {"type": "string"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def greeting(name: str, namespace: str, to: str = "world", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "runtime.fleet.dev/v1", "kind": "Greeting", "metadata": metadata, "spec": {"to": to}}


async def greet(request: kube.Request) -> kube.Result | None:
    found = request.object
    if found is None:
        return None
    text = f"Hello, {found['spec']['to']}!"
    await request.write.apply(CONFIG_MAPS, kube.child_of(found, data={"text": text}))
    await request.write.status(GREETINGS, found, {"text": text})
    request.event("Greeted", text)
    return None


def controller(namespace: str, **options: Any) -> kube.Controller:
    options = {"reconcile": greet, "owns": (CONFIG_MAPS,), **options}
    return kube.Controller("greeting", GREETINGS, namespace=namespace, **options)


async def beat(request: kube.Request) -> kube.Result:
    """Each pass writes a number one higher than the last that anybody wrote."""
    found = request.object
    if found is None:
        return kube.Result(requeue_after=1)
    (before,) = [int(one["data"]["beat"]) for one in request.owned(CONFIG_MAPS)] or [0]
    await request.write.apply(CONFIG_MAPS, kube.child_of(found, data={"beat": str(before + 1)}))
    return kube.Result(requeue_after=0.1)


def main(kubeconfig: str, context: str, namespace: str, identity: str, seconds: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    lease = kube.Lease(namespace, "greeter", seconds=float(seconds), identity=identity)
    kube.Operator(identity, [controller(namespace, reconcile=beat)], lease=lease).main(Path(kubeconfig), context)


if __name__ == "__main__":
    main(*sys.argv[1:])
