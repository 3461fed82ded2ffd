"""Status of the operator in one cluster: what is installed, which pod leads, what it looks after. It changes nothing.

Also the wait until the operator runs, and why it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.apps.registry import describe_types, usable_drivers
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.install.apply import DEFINITIONS, DEPLOYMENTS, PODS, get
from fleet.install.manifests import SELECTOR, VERSION, settings_of
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kube.apps import apps, known_types
from fleet.kube.client.client import Client
from fleet.kube.health import Health, State, judge
from fleet.kube.objects import ObjectScope, pages
from fleet.kube.watch import wait_for_health
from fleet.objects.compare import compare
from fleet.objects.desired import Key
from fleet.render.crd import definition, operation_definition
from fleet.render.operator_rights import OPERATOR, SYSTEM

DEPLOYMENT = Key(DEPLOYMENTS.group, DEPLOYMENTS.kind, SYSTEM, OPERATOR)
TROUBLE_SECONDS = 3.0
Tell = Callable[[str, str], None]


async def wait_until_rolled_out(client: Client, *, seconds: float, tell: Tell) -> None:
    """Wait until all replicas are ready and of the new template; raise TimeoutError with the reason."""

    def on_change(_: Key, health: Health) -> None:
        tell("starting", health.message)

    watcher = asyncio.create_task(_show_troubles(client, tell))
    try:
        health = (await wait_for_health(client, [DEPLOYMENT], seconds=seconds, on_change=on_change))[DEPLOYMENT]
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher
    if health.state is not State.HEALTHY:
        reason = await _describe_trouble(client) or health.message
        raise FleetTimeoutError(
            f"{client.place}: the operator does not run after {seconds:.0f} s: {reason}",
            hint=f"kubectl -n {SYSTEM} describe pods -l app.kubernetes.io/name={OPERATOR}{client.place.flag}",
        )


async def _show_troubles(client: Client, tell: Tell) -> None:
    """Tell the user meanwhile why it takes so long, so that waiting to the end is not needed."""
    while True:
        await asyncio.sleep(TROUBLE_SECONDS)
        if troubles := await _describe_trouble(client, State.DEGRADED):
            tell("in trouble", troubles)


async def _describe_trouble(client: Client, *states: State) -> str:
    """Return what is wrong with the newest pod: of these states, or whatever keeps it from being healthy."""
    labels = ",".join(f"{name}={value}" for name, value in SELECTOR.items())
    pods = [pod async for page in pages(client, ObjectScope(PODS, SYSTEM, labels=labels)) for pod in page["items"]]
    if not pods:
        return ""
    pod = max(pods, key=lambda item: str(item["metadata"]["creationTimestamp"]))
    health = judge({"apiVersion": "v1", "kind": "Pod", **pod})
    if health.state is State.HEALTHY or (states and health.state not in states):
        return ""
    return f"{pod['metadata']['name']}: {health.message}"


Object = dict[str, Any]
NO_RIGHTS = "NoRights"


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a kind. `fits`: it is what this release would install; None when it is missing."""

    name: str
    fits: bool | None
    version: str = ""  # the release that it is of, if that is known
    made: str = ""


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The state of the operator in one cluster."""

    apps: dict[str, int]  # by health
    without_rights: tuple[str, ...]  # namespaces with apps where it may do nothing
    definitions: tuple[Definition, ...]
    leader: str  # a pod, or whatever process it is
    renewed: str  # when it last said so
    version: str = ""  # of the fleet that installed it
    image: str = ""  # "" when it is not installed
    engine_images: dict[str, str] = field(default_factory=dict)
    allowed: Permissions = DEFAULT
    ready: int = 0
    replicas: int = 0
    health: str = ""
    message: str = ""
    types: dict[str, str] | None = None  # that the operator knows, each with its version; None if it does not say it
    unknown_types: tuple[str, ...] = ()  # that are installed here, and that it does not know

    @property
    def is_installed(self) -> bool:
        return bool(self.image)


async def read_state(client: Client) -> OperatorState:
    all_apps = [app async for _, app in apps(client)]
    lease = await get(client, Key("coordination.k8s.io", "Lease", SYSTEM, OPERATOR))
    leader, renewed = leader_of(lease, client.server_time())
    types = known_types(lease)
    expected = [*(definition(driver) for driver in usable_drivers()), operation_definition()]
    state = OperatorState(
        apps=dict(sorted(Counter(_health(app) for app in all_apps).items())),
        without_rights=tuple(sorted({app["metadata"]["namespace"] for app in all_apps if _has_no_rights(app)})),
        definitions=tuple([await _definition(client, crd) for crd in expected]),
        leader=leader,
        renewed=renewed,
        types=types,
        unknown_types=tuple(sorted(describe_types().keys() - types.keys())) if types is not None else (),
    )
    live = await get(client, DEPLOYMENT)
    if live is None:
        return state
    settings, health = settings_of(live), judge(live)
    return replace(
        state,
        version=str((live["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "unknown")),
        image=settings.image,
        engine_images=dict(settings.engine_images),
        allowed=settings.allowed,
        ready=int((live.get("status") or {}).get("readyReplicas", 0)),
        replicas=settings.replicas,
        health=str(health.state),
        message=health.message,
    )


def leader_of(lease: Object | None, now: datetime.datetime) -> tuple[str, str]:
    """Return the leader, and when it last renewed; "" when there is none or it has been silent for too long. Pure."""
    spec = (lease or {}).get("spec") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    if not holder or not renewed:
        return "", renewed
    silent = now - datetime.datetime.fromisoformat(renewed.replace("Z", "+00:00"))
    if silent > datetime.timedelta(seconds=2 * float(spec.get("leaseDurationSeconds") or 15)):
        return "", renewed
    return holder.partition("_")[0], renewed


async def _definition(client: Client, desired: Object) -> Definition:
    key = Key.of(desired)
    live = await get(client, Key(DEFINITIONS.group, DEFINITIONS.kind, "", key.name))
    if live is None:
        return Definition(key.name, None)
    metadata = live["metadata"]
    version = str((metadata.get("annotations") or {}).get(VERSION, ""))
    return Definition(key.name, is_current(desired, live), version, str(metadata.get("creationTimestamp", "")))


def is_current(desired: Object, live: Object) -> bool:
    """Compare both ways, since a field that the release no longer has is a difference too. Pure."""
    key = Key.of(desired)

    def shape(crd: Object) -> Object:
        versions = [{name: version.get(name) for name in ("name", "schema")} for version in crd["spec"]["versions"]]
        return {"metadata": {"name": key.name}, "spec": {"versions": versions}}

    desired_shape, live_shape = shape(desired), shape(live)
    return not compare(desired_shape, live_shape, None, key=key) and not compare(
        live_shape, desired_shape, None, key=key
    )


def _health(app: Object) -> str:
    return str((app.get("status") or {}).get("health") or "Unknown")


def _has_no_rights(app: Object) -> bool:
    conditions = (app.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Blocked" and condition.get("reason") == NO_RIGHTS for condition in conditions)
