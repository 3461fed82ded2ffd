"""The end of an app in the cluster: how long to wait for it, and whose it is. What goes is decided in the kit.

If not the app but its definition is being deleted, nobody asked for the app's end: it is let go, and runs on.
"""

from __future__ import annotations

import datetime
from typing import Any

from fleet.kit.observe.world import is_leaving, when
from fleet.kit.operate.engine import Engine
from fleet.kube.runtime import Request

FINALIZER = "fleet.dev/operator"
SLOWEST = 15.0  # seconds between looks at an app whose end does not come


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
