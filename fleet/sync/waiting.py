"""Until what was applied is healthy: judged from the objects themselves, asked for again only while they are not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from fleet.errors import FleetError, ResourceError
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.kube.client import Client
from fleet.kube.health import judge
from fleet.kube.live import Live, read_live
from fleet.model.desired import Desired, Key, Object
from fleet.sync.outcome import ObjectHealth

WORST_LAST = ("Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown")
UNSETTLED = frozenset({"Progressing", "Missing"})
SETTLING_SECONDS = 5.0  # what is degraded right after a change may only be on its way
SILENCE_SECONDS = 20.0  # an app about which nobody reports anything for so long has no operator
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


def health_now(desired: Desired | None, live: Live | None) -> tuple[str, tuple[ObjectHealth, ...]]:
    """The worst of all objects, and each of them."""
    if desired is None or live is None:
        return "Unknown", ()
    return _judged(_alive(desired, live), live)


async def until_healthy(
    client: Client, desired: Desired, live: Live | None, *, seconds: float, tell: Callable[[str, str], None]
) -> tuple[str, tuple[ObjectHealth, ...], FleetError | None]:
    """Health in the end, and the error if it is not good. `live` is what is known already, None to read it anew."""
    versions = {one.key: one.manifest["apiVersion"].rpartition("/")[2] for one in desired.objects}
    known = dict(live) if live is not None else await read_live(client, versions, versions)
    wanted = _alive(desired, known)
    begun, pause = time.monotonic(), FIRST_PAUSE
    while True:
        passed = time.monotonic() - begun
        health, objects = _judged(wanted, known, silent=passed > SILENCE_SECONDS)
        open_ones = [
            (key, one)
            for (key, _), one in zip(wanted, objects, strict=True)
            if one.state in UNSETTLED or (one.state == "Degraded" and passed < SETTLING_SECONDS)
        ]
        if not open_ones or passed >= seconds:
            return health, objects, _error(client.cluster, desired.stack, objects, seconds) if seconds else None
        _, first = open_ones[0]
        done = len(objects) - len(open_ones)
        tell("waiting for health", f"{done}/{len(objects)}  {first.kind} {first.name}: {first.message or first.state}")
        await asyncio.sleep(min(pause, max(0.0, seconds - passed)))
        pause = min(LONGEST_PAUSE, pause * 1.5)
        known.update(await read_live(client, [key for key, _ in open_ones], versions))


def _alive(desired: Desired, live: Mapping[Key, Any]) -> list[tuple[Key, Object]]:
    """The objects of a stack under the keys that they have in the cluster: a renamed one has its former."""
    found = []
    for one in desired.objects:
        known = (one.key, *one.aliases) if live.get(one.key) is None else (one.key,)
        found.append((next((key for key in known if live.get(key)), one.key), one))
    return found


def _judged(
    wanted: Iterable[tuple[Key, Object]], live: Mapping[Key, dict[str, Any] | None], *, silent: bool = False
) -> tuple[str, tuple[ObjectHealth, ...]]:
    objects = tuple(judge_object(key, live.get(key), is_app=bool(one.app), silent=silent) for key, one in wanted)
    return worst(objects), objects


def worst(objects: Iterable[ObjectHealth]) -> str:
    return max((one.state for one in objects), key=WORST_LAST.index, default="Healthy")


def judge_object(key: Key, live: dict[str, Any] | None, *, is_app: bool, silent: bool) -> ObjectHealth:
    """`silent`: an app that nobody has reported on by now has no operator."""
    about = ObjectHealth(key.kind, key.namespace, key.name, "Missing", "is not there", is_app=is_app)
    if live is None:
        return about
    status = live.get("status") or {}
    if is_app and not status:
        if silent:
            return replace(about, state="Unknown", message="nobody reports its state: is the operator running?")
        return replace(about, state="Progressing", message="waiting for the operator")
    health = judge(live)
    state = str(health.state)
    version = str(status.get("version") or "") if is_app else ""
    known = state if state in WORST_LAST else "Unknown"
    return replace(about, state=known, message=health.message, version=version)


def _error(cluster: str, stack: str, objects: Iterable[ObjectHealth], seconds: float) -> FleetError | None:
    bad = [one for one in objects if one.state == "Degraded"]
    if bad:
        return ResourceError(f"{cluster}: {bad[0].kind} {bad[0].namespace}/{bad[0].name} is degraded: {bad[0].message}")
    late = [one for one in objects if one.state in UNSETTLED]
    if late:
        return FleetTimeoutError(
            f"{cluster}: {stack} was not healthy after {seconds:.0f} s: "
            f"{late[0].kind} {late[0].namespace}/{late[0].name}: {late[0].message or late[0].state}",
            hint="it was applied and goes on; `fleet status` shows it, --timeout waits longer, --no-wait not at all",
        )
    return None
