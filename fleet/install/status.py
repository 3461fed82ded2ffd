"""How the operator is; wait for it.

Until the operator runs, and why it does not.

How the operator is in one cluster: what is installed, who leads, what it looks after. It changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.apps.permissions import DEFAULT, Permissions
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.install.apply import DEFINITIONS, DEPLOYMENTS, PODS, get
from fleet.install.manifests import SELECTOR, VERSION, settings_of
from fleet.kube.apps import apps
from fleet.kube.client.client import Client
from fleet.kube.health import Health, State, judge
from fleet.kube.objects import Scope, pages
from fleet.kube.watch import wait_for_health
from fleet.objects.compare import compare
from fleet.objects.desired import Key
from fleet.render.crd import definitions
from fleet.render.operator_rights import OPERATOR, SYSTEM

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


Object = dict[str, Any]
NO_RIGHTS = "NoRights"


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a kind. `fits`: it is what this release would install; None when it is not there."""

    name: str
    fits: bool | None
    version: str = ""  # the release that it is of, if that is known
    made: str = ""


@dataclass(frozen=True, slots=True)
class OperatorState:
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

    @property
    def installed(self) -> bool:
        return bool(self.image)


async def read_state(client: Client) -> OperatorState:
    seen = [app async for _, app in apps(client)]
    lease = await get(client, Key("coordination.k8s.io", "Lease", SYSTEM, OPERATOR))
    leader, renewed = leader_of(lease, client.server_time())
    around = OperatorState(
        apps=dict(sorted(Counter(_health(app) for app in seen).items())),
        without_rights=tuple(sorted({app["metadata"]["namespace"] for app in seen if _has_no_rights(app)})),
        definitions=tuple([await _definition(client, one) for one in definitions().values()]),
        leader=leader,
        renewed=renewed,
    )
    found = await get(client, DEPLOYMENT)
    if found is None:
        return around
    settings, health = settings_of(found), judge(found)
    return replace(
        around,
        version=str((found["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "unknown")),
        image=settings.image,
        engine_images=dict(settings.engine_images),
        allowed=settings.allowed,
        ready=int((found.get("status") or {}).get("readyReplicas", 0)),
        replicas=settings.replicas,
        health=str(health.state),
        message=health.message,
    )


def leader_of(lease: Object | None, now: datetime.datetime) -> tuple[str, str]:
    """Who leads, and when it last said so; "" when nobody does, or the last one has been silent for too long. Pure."""
    spec = (lease or {}).get("spec") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    if not holder or not renewed:
        return "", renewed
    silent = now - datetime.datetime.fromisoformat(renewed.replace("Z", "+00:00"))
    if silent > datetime.timedelta(seconds=2 * float(spec.get("leaseDurationSeconds") or 15)):
        return "", renewed
    return holder.partition("_")[0], renewed


async def _definition(client: Client, wanted: Object) -> Definition:
    key = Key.of(wanted)
    found = await get(client, Key(DEFINITIONS.group, DEFINITIONS.kind, "", key.name))
    if found is None:
        return Definition(key.name, None)
    own = found["metadata"]
    version = str((own.get("annotations") or {}).get(VERSION, ""))
    return Definition(key.name, fits(wanted, found), version, str(own.get("creationTimestamp", "")))


def fits(wanted: Object, found: Object) -> bool:
    """Both ways, since a field that the release no longer has is a difference too. Pure."""
    key = Key.of(wanted)

    def shape(one: Object) -> Object:
        versions = [{name: each.get(name) for name in ("name", "schema")} for each in one["spec"]["versions"]]
        return {"metadata": {"name": key.name}, "spec": {"versions": versions}}

    one, other = shape(wanted), shape(found)
    return not compare(one, other, None, key=key) and not compare(other, one, None, key=key)


def _health(app: Object) -> str:
    return str((app.get("status") or {}).get("health") or "Unknown")


def _has_no_rights(app: Object) -> bool:
    conditions = (app.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Blocked" and one.get("reason") == NO_RIGHTS for one in conditions)
