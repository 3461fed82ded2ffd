"""Health of a stack: how its objects are, and waiting until they are healthy or out of time."""

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
CAUSES_SECONDS = 5.0  # seconds between two reads of what keeps a workload from getting healthy
OPERATOR_SECONDS = 10.0  # an app whose status is not reported for so long after a change has no operator
Tell = Callable[[str, str], None]
Judged = tuple[str, tuple[ObjectHealth, ...]]
UNKNOWN: Live = {}
WELL_WORD = State.HEALTHY.value
NO_CAUSES: Mapping[Key, str] = {}


def observe_health(desired: Desired | None, live: Live | None) -> tuple[str, tuple[ObjectHealth, ...]]:
    """Return the worst health of all objects and the health of each; Unknown if nothing was read or desired."""
    if desired is None or live is None:
        return State.UNKNOWN.value, ()
    return _judge_objects(_keys_in_cluster(desired, live), live)


def _judge_objects(keys: Mapping[Key, bool], live: Live, causes: Mapping[Key, str] = NO_CAUSES) -> Judged:
    """Return the worst health of these objects and the health of each; `keys` says of each whether it is an app."""
    healths = (
        object_health(key, live.get(key), live, is_app=is_app, cause=causes.get(key, ""))
        for key, is_app in keys.items()
    )
    objects = tuple(healths)
    return worst_state(objects), objects


def inert_health(desired: Desired, unchanged_objects: Live) -> Live:
    """Return the live objects that need no second read after a change of others: healthy by existing."""
    objects = ((obj, unchanged_objects.get(obj.key)) for obj in desired.objects if not obj.app)
    return {obj.key: manifest for obj, manifest in objects if is_inert(manifest)}


async def wait_until_healthy(
    client: Client, desired: Desired, live: Live | None, *, seconds: float, tell: Tell, already_read: Live = UNKNOWN
) -> tuple[str, tuple[ObjectHealth, ...], FleetError | None]:
    """Wait until the stack is healthy; return the worst health, each object's, and the error if it is not good by then.

    `live` is what the cluster has when nothing was changed. It is None after a change: then an operator gets time to
    report a status, and every object is read again that is not in `already_read`.
    """
    versions = _versions_to_read(desired) if live is None or seconds else {}
    objects_read = live
    if objects_read is None:
        missing = [key for key in versions if key not in already_read]
        objects_read = {**already_read, **await _read_objects(client, missing, versions)}
    keys = _keys_in_cluster(desired, objects_read)
    changed = live is None
    unsettled = (
        [key for key in keys if not _is_final(judge(objects_read.get(key), objects_read), changed=changed)]
        if seconds
        else []
    )
    if unsettled:
        await _wait_for_objects(client, unsettled, versions, seconds, tell)
        objects_read = {**objects_read, **await _read_objects(client, unsettled, versions)}
    health, objects = _judge_objects(keys, objects_read, await explain_health(client, objects_read, keys))
    return health, objects, _health_error(client.cluster, desired.stack, objects, seconds) if seconds else None


async def _read_objects(client: Client, keys: Iterable[Key], versions: Mapping[Key, str]) -> Live:
    """Read the objects and what their health depends on."""
    live = await read_live(client, keys, versions)
    return {**live, **await read_around(client, live)}


async def _wait_for_objects(
    client: Client, keys: list[Key], versions: Mapping[Key, str], seconds: float, tell: Tell
) -> None:
    """Wait until the objects are settled or the time is over, and report progress and causes meanwhile."""
    from fleet.kube.watch import wait_for_health  # noqa: PLC0415 - a sync without it loads less

    healths: dict[Key, Health] = {}

    def on_change(key: Key, health: Health) -> None:
        healths[key] = health
        settled = sum(state.is_settled for state in healths.values())
        if not health.is_settled:
            tell("waiting for health", f"{settled}/{len(keys)}  {key}: {health.message or health.state}")

    tell("waiting for health", f"0/{len(keys)}")
    cause_task = asyncio.create_task(_tell_causes(client, healths, versions, tell))
    try:
        await wait_for_health(
            client, keys, seconds=seconds, versions=versions, on_change=on_change, unknown_seconds=OPERATOR_SECONDS
        )
    finally:
        cause_task.cancel()
        await asyncio.gather(cause_task, return_exceptions=True)


async def _tell_causes(client: Client, healths: Mapping[Key, Health], versions: Mapping[Key, str], tell: Tell) -> None:
    """Report what keeps the awaited objects from getting healthy, until cancelled.

    The user should not have to wait for the timeout to learn that a Secret is missing.
    """
    reported: dict[Key, str] = {}
    while True:
        await asyncio.sleep(CAUSES_SECONDS)
        keys = [key for key, health in healths.items() if not health.is_settled]
        with contextlib.suppress(FleetError):
            causes = await explain_health(client, await read_live(client, keys, versions), keys)
            for key, cause in causes.items():
                if reported.get(key) != cause:
                    tell("waiting for health", f"{key}: {cause}")
            reported = causes


def _is_final(health: Health, *, changed: bool) -> bool:
    """Return whether waiting cannot change the health: after a change, an unknown health still can."""
    return health.is_settled or (health.state is State.UNKNOWN and not changed)


def _versions_to_read(desired: Desired) -> dict[Key, str]:
    """Return the API version in which to read each object that the stack wants."""
    keys = ((obj, key) for obj in desired.objects for key in (obj.key, *obj.aliases))
    return {key: obj.version for obj, key in keys}


def _keys_in_cluster(desired: Desired, live: Mapping[Key, Any]) -> dict[Key, bool]:
    """Return the keys that the objects have in the cluster (a renamed one its former), and which are apps."""
    return {_key_in_cluster(obj, live) if obj.aliases else obj.key: bool(obj.app) for obj in desired.objects}


def _key_in_cluster(obj: Object, live: Mapping[Key, Any]) -> Key:
    """Return the key under which the object is live: its own or an alias; its own if it is absent."""
    return next((key for key in (obj.key, *obj.aliases) if live.get(key)), obj.key)


def object_health(
    key: Key, live: dict[str, Any] | None, around: Around = NOTHING, *, is_app: bool, cause: str = ""
) -> ObjectHealth:
    """Return the health of one object, for an app with what its operator reports about members."""
    health = add_cause(judge(live, around), cause)
    if health is WELL and not is_app:
        return ObjectHealth(key.kind, key.namespace, key.name, WELL_WORD, "", "", False)
    version = str(status_of(live).get("version") or "") if live and is_app else ""
    members, available = _engine_status(live) if is_app and live else ("", "")
    fields = (key.kind, key.namespace, key.name, health.state.value, health.message, version, is_app)
    git_name = name_in_git(live) if live and is_app else key.name
    return ObjectHealth(*fields, members, available, git_name if git_name != key.name else "")


def _engine_status(live: dict[str, Any]) -> tuple[str, str]:
    """Return what the operator reports about an app: its members, and whether clients are served."""
    available = condition(live, "Available") or {}
    return str(status_of(live).get("ready", "")), {"True": "yes", "False": "no"}.get(str(available.get("status")), "")


def worst_state(objects: Iterable[ObjectHealth]) -> str:
    """Return the worst state of the objects; Healthy if there are none."""
    return max({health.state for health in objects}, key=WORST_LAST.index, default=WORST_LAST[0])


def degraded_error(cluster: str, objects: Iterable[ObjectHealth]) -> FleetError | None:
    """Return the error for the first degraded object, or None."""
    degraded = [health for health in objects if health.state == State.DEGRADED]
    return ResourceError(f"{cluster}: {degraded[0].title} is degraded: {degraded[0].message}") if degraded else None


def _health_error(cluster: str, stack: str, objects: Iterable[ObjectHealth], seconds: float) -> FleetError | None:
    """Return the error for a stack that is degraded or not healthy in time, or None."""
    if error := degraded_error(cluster, objects):
        return error
    late = [health for health in objects if health.state in (State.PROGRESSING, State.MISSING)]
    if late:
        return FleetTimeoutError(
            f"{cluster}: {stack} was not healthy after {seconds:.0f} s: "
            f"{late[0].title}: {late[0].message or late[0].state}",
            hint="it was applied and goes on; `fleet status` shows it, --timeout waits longer, --no-wait not at all",
        )
    return None
