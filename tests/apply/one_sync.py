"""One sync of one stack to one cluster, in a process of its own so that it can be killed: read, plan, apply.

    python one_sync.py KUBECONFIG CONTEXT DESIRED.json

The file holds the stack's name and its manifests; the last line printed is the outcome as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from fleet.apply.executor import apply
from fleet.apply.inventory import load
from fleet.apply.steps import StepOutcome
from fleet.errors import FleetError, Source
from fleet.kube.client.client import Client
from fleet.kube.lease import Lease
from fleet.kube.live import read_live
from fleet.objects.desired import Desired, Key, Object
from fleet.plan.decide import keys_to_read, plan

STACK = "fleet.dev/stack"


def wanted(stack: str, *manifests: dict[str, Any], adopt: bool = False, take_from: tuple[str, ...] = ()) -> Desired:
    """Manifests as a stack wants them: labelled, in the order of their dependencies (each `depends_on` by name)."""
    objects: list[Object] = []
    for given in manifests:
        manifest = json.loads(json.dumps(given))
        names = manifest.pop("depends_on", [])
        manifest["metadata"].setdefault("labels", {}).update({STACK: stack, "app.kubernetes.io/managed-by": "fleet"})
        after = tuple(one.key for one in objects if one.key.name in names) if names else ()
        objects.append(
            Object(manifest, Source("stacks/test.py", 1), depends_on=after, adopt=adopt, take_from=take_from)
        )
    return Desired(stack, "test", tuple(objects))


async def sync(client: Client, desired: Desired, *, wait: float = 0.0) -> StepOutcome | None:
    """None when there was nothing to do."""
    stored = await load(client, desired.stack, desired.cluster)
    keys = keys_to_read(desired, stored.inventory)
    versions = {one.key: one.manifest["apiVersion"].rpartition("/")[2] for one in desired.objects}
    steps = plan(desired, stored.inventory, await read_live(client, keys, versions))
    if steps.empty and not steps.conflicts:
        return None
    async with Lease(client, desired.stack, wait=wait):
        return await apply(client, steps, stored)


def keys_of(outcome: StepOutcome) -> list[Key]:
    return [entry.key for entry in outcome.stored.inventory.entries]


async def main(kubeconfig: str, context: str, path: str) -> int:
    given = json.loads(Path(path).read_text())  # noqa: ASYNC240 - a small file, before anything else
    async with Client.of(kubeconfig, context) as client:
        outcome = await sync(client, wanted(given["stack"], *given["manifests"]), wait=5.0)
    if outcome is None:
        print(json.dumps({"ok": True, "changes": 0}))
        return 0
    states = Counter(f"{result.step.verb} {result.state}" for result in outcome.results)
    errors = [str(result.error) for result in outcome.results if result.error]
    print(json.dumps({"ok": outcome.ok, "changes": len(outcome.results), "states": states, "errors": errors}))
    return 0 if outcome.ok else 4


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(*sys.argv[1:])))
    except FleetError as problem:
        print(problem, file=sys.stderr)
        sys.exit(problem.exit_code)
