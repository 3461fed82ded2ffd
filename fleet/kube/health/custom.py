"""Custom resources, and any kind without a judge of its own: by their conditions, as most controllers write them."""

from __future__ import annotations

import re
from typing import Any

from fleet.kube.health.state import (
    Health,
    State,
    condition,
    degraded,
    healthy,
    holds,
    progressing,
    said,
    status_of,
    suspended,
)

OWN_GROUP = "fleet.dev"
POSITIVE = ("Ready", "Available", "Healthy", "Succeeded")  # the first that is there decides
NEGATIVE = ("Stalled", "Degraded", "Failed")
# A condition that is False may be on its way to True or not: the reason's word tells, by convention only.
_FAULT = re.compile(r"fail|error|invalid|denied|degraded|crash|timeout|timedout|notfound|unavailable|refused", re.I)
_PHASES = {
    **dict.fromkeys(("ready", "running", "active", "available", "bound", "healthy", "succeeded", "completed"), True),
    **dict.fromkeys(("failed", "error", "degraded", "lost", "invalid"), False),
    **dict.fromkeys(("pending", "creating", "provisioning", "initializing", "updating", "progressing"), None),
}


def resource_health(found: dict[str, Any]) -> Health:
    status = status_of(found)
    if not status:
        return _without_status(found)
    generation = found["metadata"].get("generation", 0)
    if waiting := _not_seen(status, generation):
        return waiting
    for kind in NEGATIVE:
        if holds(found, kind):
            return degraded(said(condition(found, kind)) or kind)
    spec = found.get("spec")
    suspends = isinstance(spec, dict) and spec.get("suspend") is True
    if holds(found, "Paused") or holds(found, "Suspended") or suspends:
        return suspended("it is suspended")
    for kind in POSITIVE:
        one = condition(found, kind)
        if one is not None:
            return _by(one, generation)
    if holds(found, "Reconciling") or holds(found, "Progressing"):
        return progressing(said(condition(found, "Reconciling") or condition(found, "Progressing")))
    return _by_phase(status)


def _without_status(found: dict[str, Any]) -> Health:
    """Most kinds never have a status and are healthy by existing. An app has one as soon as an operator sees it."""
    if found["apiVersion"].partition("/")[0] == OWN_GROUP and "spec" in found:
        return Health(State.UNKNOWN, "no operator has reported on it yet")
    return healthy()


def _not_seen(one: dict[str, Any], generation: int) -> Health | None:
    """Of a status or a condition: it is about an older spec, or nobody can tell. Some write the number as text."""
    seen = one.get("observedGeneration")
    if seen is None:
        return None
    if isinstance(seen, int | str) and re.fullmatch(r"\d{1,18}", str(seen)):
        return progressing("waiting for its controller to see the change") if int(seen) < generation else None
    return Health(State.UNKNOWN, f"its observedGeneration is no number: {str(seen)[:40]!r}")


def _by(one: dict[str, Any], generation: int) -> Health:
    if waiting := _not_seen(one, generation):
        return waiting
    if one.get("status") == "True":
        return healthy(said(one))
    words = said(one) or f"{one['type']} is {one.get('status', 'Unknown')}"
    if one.get("status") == "False" and _FAULT.search(str(one.get("reason", ""))):
        return degraded(words)
    return progressing(words)


def _by_phase(status: dict[str, Any]) -> Health:
    phase = status.get("phase") or status.get("state")
    good = _PHASES.get(str(phase).lower(), True) if isinstance(phase, str) else True
    if good is None:
        return progressing(str(phase))
    if good is False:
        return degraded(str(status.get("message") or phase))
    return healthy(str(phase) if isinstance(phase, str) else "")
