"""Until the operator runs, and why it does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.install.apply import DEPLOYMENTS, PODS
from fleet.install.manifests import SELECTOR
from fleet.kube.client import Client
from fleet.kube.health import Health, State, judge
from fleet.kube.objects import Scope, pages
from fleet.kube.wait import wait_for_health
from fleet.model.desired import Key
from fleet.render.rights import OPERATOR, SYSTEM

DEPLOYMENT = Key(DEPLOYMENTS.group, DEPLOYMENTS.kind, SYSTEM, OPERATOR)
LOOK_SECONDS = 3.0
Tell = Callable[[str, str], None]


async def rolled_out(client: Client, *, seconds: float, tell: Tell) -> None:
    """Until all replicas are ready and of the new template."""

    def on_change(_: Key, health: Health) -> None:
        tell("starting", health.message)

    looking = asyncio.create_task(_tell_troubles(client, tell))
    try:
        health = (await wait_for_health(client, [DEPLOYMENT], seconds=seconds, on_change=on_change))[DEPLOYMENT]
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    if health.state is not State.HEALTHY:
        why = await _troubles(client) or health.message
        raise FleetTimeoutError(
            f"{client.place}: the operator does not run after {seconds:.0f} s: {why}",
            hint=f"kubectl -n {SYSTEM} describe pods -l app.kubernetes.io/name={OPERATOR}{client.place.flag}",
        )


async def _tell_troubles(client: Client, tell: Tell) -> None:
    """While it is waited for: a person who sees why it takes so long need not wait to the end."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if troubles := await _troubles(client, State.DEGRADED):
            tell("in trouble", troubles)


async def _troubles(client: Client, *states: State) -> str:
    """What the newest pod suffers from: of these states, or whatever keeps it from being healthy."""
    labels = ",".join(f"{name}={value}" for name, value in SELECTOR.items())
    pods = [pod async for page in pages(client, Scope(PODS, SYSTEM, labels=labels)) for pod in page["items"]]
    if not pods:
        return ""
    pod = max(pods, key=lambda one: str(one["metadata"]["creationTimestamp"]))
    health = judge({"apiVersion": "v1", "kind": "Pod", **pod})
    if health.state is State.HEALTHY or (states and health.state not in states):
        return ""
    return f"{pod['metadata']['name']}: {health.message}"
