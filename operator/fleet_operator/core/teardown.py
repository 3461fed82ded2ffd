"""An app that is taken out: everything that can be made again goes, what holds data stays unless the app says so.

If not the app but its definition is being deleted, nobody asked for the app's end: it is let go, and runs on.
"""

from __future__ import annotations

import datetime
from typing import Any

from fleet.kit.observe.world import World, is_leaving, when
from fleet.kit.operate.engine import Engine
from fleet.kit.step import Decision, Delete, State, Step, step, wait
from fleet.kube.runtime import Request

FINALIZER = "fleet.dev/operator"
SLOWEST = 15.0  # seconds between looks at an app whose end does not come
ORDER = ("CronJob", "Job", "PodDisruptionBudget", "StatefulSet", "Service", "ConfigMap", "Secret")


def torn_down(engine: Engine[Any, Any], app: Any, world: World) -> Decision | None:
    """Return the next step; None when nothing is left that has to go. Pure."""
    message = f"{app.name} is taken out"
    for kind in ORDER:
        present = [one for one in world.all(kind) if not is_leaving(one)]
        if present:
            steps: tuple[Step, ...] = tuple(Delete(one) for one in present)
            return step(State.PROGRESSING, "Deleting", message, *steps)
    if world.all("Pod") or world.all("StatefulSet"):
        return wait(State.PROGRESSING, "Deleting", f"{message}; its pods end", 0.5)
    if not engine.keeps_data(app):
        claims = [one for one in engine.data_of(app, world) if not is_leaving(one)]
        if claims:
            gone = tuple(Delete(one, "VolumeDeleted", f"{one['metadata']['name']} goes with its app") for one in claims)
            return step(State.PROGRESSING, "Deleting", message, *gone)
    return None


def pause(manifest: dict[str, Any], after: float, now: datetime.datetime) -> float:
    """Return the seconds until the next look. An end that somebody holds up, with a finalizer of their own on a pod for
    instance, is in no hurry; what changes is looked at at once."""
    asked = when(manifest["metadata"]["deletionTimestamp"])
    return max(after, min((now - asked).total_seconds() / 60, SLOWEST))


async def definition_is_leaving(request: Request, engine: Engine[Any, Any]) -> bool:
    """Tell whether the CustomResourceDefinition itself is being deleted. AccessError where that cannot be seen."""
    name = f"{engine.resource.plural}.{engine.resource.group}"
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    answer = await request.client.request("GET", path, expect=(404,))
    return answer.status == 404 or is_leaving(answer.body)


def with_finalizer(manifest: dict[str, Any], *, present: bool) -> dict[str, Any]:
    own = manifest["metadata"]
    metadata = {name: own[name] for name in ("name", "namespace", "uid")}
    return {"metadata": {**metadata, "finalizers": [FINALIZER] if present else []}}


def has_finalizer(manifest: dict[str, Any]) -> bool:
    return FINALIZER in manifest["metadata"].get("finalizers", ())
