"""Until what was applied is healthy, and how everything is in the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleet.errors import FleetError, ResourceError
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.kube.cause import add_cause, explain_health
from fleet.kube.client.client import Client
from fleet.kube.health import WELL, Health, State, is_inert, judge
from fleet.kube.health.builtin import NOTHING, Around
from fleet.kube.health.state import condition, status_of
from fleet.kube.live import Live, read_around, read_live
from fleet.names import name_in_git
from fleet.objects.desired import Desired, Key, Object
from fleet.sync.result import ObjectHealth

WORST_LAST = tuple(
    state.value
    for state in (State.HEALTHY, State.SUSPENDED, State.PROGRESSING, State.MISSING, State.DEGRADED, State.UNKNOWN)
)
CAUSES_SECONDS = 5.0  # between two looks for what keeps a workload from getting healthy
OPERATOR_SECONDS = 10.0  # an app that nobody reports on for so long after a change has no operator
Tell = Callable[[str, str], None]
Judged = tuple[str, tuple[ObjectHealth, ...]]
UNKNOWN: Live = {}
WELL_WORD = State.HEALTHY.value
NO_CAUSES: Mapping[Key, str] = {}


def observe_health(desired: Desired | None, live: Live | None) -> tuple[str, tuple[ObjectHealth, ...]]:
    """The worst of all objects, and each of them."""
    if desired is None or live is None:
        return State.UNKNOWN.value, ()
    return _health(_in_cluster(desired, live), live)


def _health(keys: Mapping[Key, bool], live: Live, causes: Mapping[Key, str] = NO_CAUSES) -> Judged:
    found = (
        object_health(key, live.get(key), live, is_app=app, cause=causes.get(key, "")) for key, app in keys.items()
    )
    objects = tuple(found)
    return worst_state(objects), objects


def inert_health(desired: Desired, untouched: Live) -> Live:
    """Return what needs no second look after a change of other objects: what is healthy by being there."""
    objects = ((one, untouched.get(one.key)) for one in desired.objects if not one.app)
    return {one.key: found for one, found in objects if is_inert(found)}


async def wait_until_healthy(
    client: Client, desired: Desired, live: Live | None, *, seconds: float, tell: Tell, known: Live = UNKNOWN
) -> tuple[str, tuple[ObjectHealth, ...], FleetError | None]:
    """Health in the end, and the error if it is not good by then.

    `live` is what is there when nothing was changed, None after a change: then an operator is given time to speak up,
    and everything is read again that is not `known`.
    """
    versions = _versions(desired) if live is None or seconds else {}
    there = live
    if there is None:
        there = {**known, **await _read(client, [key for key in versions if key not in known], versions)}
    keys = _in_cluster(desired, there)
    changed = live is None
    open_ones = [key for key in keys if not _is_over(judge(there.get(key), there), changed=changed)] if seconds else []
    if open_ones:
        await _wait(client, open_ones, versions, seconds, tell)
        there = {**there, **await _read(client, open_ones, versions)}
    health, objects = _health(keys, there, await explain_health(client, there, keys))
    return health, objects, _error(client.cluster, desired.stack, objects, seconds) if seconds else None


async def _read(client: Client, keys: Iterable[Key], versions: Mapping[Key, str]) -> Live:
    live = await read_live(client, keys, versions)
    return {**live, **await read_around(client, live)}


async def _wait(client: Client, keys: list[Key], versions: Mapping[Key, str], seconds: float, tell: Tell) -> None:
    from fleet.kube.watch import wait_for_health  # noqa: PLC0415 - brings aiohttp, which looking does not need

    seen: dict[Key, Health] = {}

    def on_change(key: Key, health: Health) -> None:
        seen[key] = health
        done = sum(one.is_settled for one in seen.values())
        if not health.is_settled:
            tell("waiting for health", f"{done}/{len(keys)}  {key}: {health.message or health.state}")

    tell("waiting for health", f"0/{len(keys)}")
    telling = asyncio.create_task(_tell_causes(client, seen, versions, tell))
    try:
        await wait_for_health(
            client, keys, seconds=seconds, versions=versions, on_change=on_change, unknown_seconds=OPERATOR_SECONDS
        )
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_causes(client: Client, seen: Mapping[Key, Health], versions: Mapping[Key, str], tell: Tell) -> None:
    """Say what keeps the objects that are waited for: that a Secret is missing should not be news after ten minutes."""
    told: dict[Key, str] = {}
    while True:
        await asyncio.sleep(CAUSES_SECONDS)
        keys = [key for key, health in seen.items() if not health.is_settled]
        with contextlib.suppress(FleetError):
            found = await explain_health(client, await read_live(client, keys, versions), keys)
            for key, cause in found.items():
                if told.get(key) != cause:
                    tell("waiting for health", f"{key}: {cause}")
            told = found


def _is_over(health: Health, *, changed: bool) -> bool:
    return health.is_settled or (health.state is State.UNKNOWN and not changed)


def _versions(desired: Desired) -> dict[Key, str]:
    """In which API version to read what the stack wants."""
    keys = ((one, key) for one in desired.objects for key in (one.key, *one.aliases))
    return {key: one.manifest["apiVersion"].rpartition("/")[2] for one, key in keys}


def _in_cluster(desired: Desired, live: Mapping[Key, Any]) -> dict[Key, bool]:
    """The keys that the objects have in the cluster (a renamed one its former), each with whether it is an app."""
    return {_key_there(one, live) if one.aliases else one.key: bool(one.app) for one in desired.objects}


def _key_there(one: Object, live: Mapping[Key, Any]) -> Key:
    return next((key for key in (one.key, *one.aliases) if live.get(key)), one.key)


def object_health(
    key: Key, live: dict[str, Any] | None, around: Around = NOTHING, *, is_app: bool, cause: str = ""
) -> ObjectHealth:
    health = add_cause(judge(live, around), cause)
    if health is WELL and not is_app:
        return ObjectHealth(key.kind, key.namespace, key.name, WELL_WORD, "", "", False)
    version = str(status_of(live).get("version") or "") if live and is_app else ""
    members, available = _engine(live) if is_app and live else ("", "")
    found = (key.kind, key.namespace, key.name, health.state.value, health.message, version, is_app)
    called = name_in_git(live) if live and is_app else key.name
    return ObjectHealth(*found, members, available, called if called != key.name else "")


def _engine(live: dict[str, Any]) -> tuple[str, str]:
    """What the operator says about an app: its members, and whether clients are served."""
    told = condition(live, "Available") or {}
    return str(status_of(live).get("ready", "")), {"True": "yes", "False": "no"}.get(str(told.get("status")), "")


def worst_state(objects: Iterable[ObjectHealth]) -> str:
    return max({one.state for one in objects}, key=WORST_LAST.index, default=WORST_LAST[0])


def degraded_error(cluster: str, objects: Iterable[ObjectHealth]) -> FleetError | None:
    bad = [one for one in objects if one.state == State.DEGRADED]
    return ResourceError(f"{cluster}: {bad[0].title} is degraded: {bad[0].message}") if bad else None


def _error(cluster: str, stack: str, objects: Iterable[ObjectHealth], seconds: float) -> FleetError | None:
    if bad := degraded_error(cluster, objects):
        return bad
    late = [one for one in objects if one.state in (State.PROGRESSING, State.MISSING)]
    if late:
        return FleetTimeoutError(
            f"{cluster}: {stack} was not healthy after {seconds:.0f} s: "
            f"{late[0].title}: {late[0].message or late[0].state}",
            hint="it was applied and goes on; `fleet status` shows it, --timeout waits longer, --no-wait not at all",
        )
    return None
