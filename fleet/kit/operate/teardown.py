"""An app that is taken out: what can be made again goes, what holds data stays unless the app says so. Pure."""

from __future__ import annotations

from typing import Any

from fleet.kit.observe.world import World, is_leaving
from fleet.kit.operate.engine import Engine
from fleet.kit.step import Decision, Delete, State, Step, step, wait

ORDER = ("CronJob", "Job", "PodDisruptionBudget", "StatefulSet", "Service", "EndpointSlice", "ConfigMap", "Secret")
LAST = ("RoleBinding", "ServiceAccount", "NetworkPolicy")  # members that end still have rights, and are guarded


def torn_down(engine: Engine[Any, Any], app: Any, world: World) -> Decision | None:
    """Return the next step; None when nothing is left that has to go."""
    message = f"{app.name} is taken out"
    if (decision := _without(ORDER, world, message)) is not None:
        return decision
    if world.all("Pod") or world.all("StatefulSet"):
        return wait(State.PROGRESSING, "Deleting", f"{message}; its pods end", 0.5)
    if (decision := _without(LAST, world, message)) is not None:
        return decision
    if not engine.keeps_data(app):
        claims = [one for one in engine.data_of(app, world) if not is_leaving(one)]
        if claims:
            gone = tuple(Delete(one, "VolumeDeleted", f"{one['metadata']['name']} goes with its app") for one in claims)
            return step(State.PROGRESSING, "Deleting", message, *gone)
    return None


def _without(order: tuple[str, ...], world: World, message: str) -> Decision | None:
    """Delete what there is of the first of these kinds; None when there is nothing of any."""
    for kind in order:
        if present := [one for one in world.all(kind) if not is_leaving(one)]:
            steps: tuple[Step, ...] = tuple(Delete(one) for one in present)
            return step(State.PROGRESSING, "Deleting", message, *steps)
    return None
