"""Health of custom resources, and of any kind without a judge of its own.

They are judged by their conditions, as most controllers write them.
"""

from __future__ import annotations

import re
from typing import Any

from fleet.kube.health.state import (
    Health,
    State,
    condition,
    condition_message,
    degraded,
    has_condition,
    healthy,
    progressing,
    status_of,
    suspended,
)

OWN_GROUP = "fleet.dev"
POSITIVE = ("Ready", "Available", "Healthy", "Succeeded")  # the first that exists decides
NEGATIVE = ("Stalled", "Degraded", "Failed")
# A condition that is False may be on its way to True or not: its reason shows which, by convention only.
_FAULT = re.compile(r"fail|error|invalid|denied|degraded|crash|timeout|timedout|notfound|unavailable|refused", re.I)
_PHASES = {
    **dict.fromkeys(("ready", "running", "active", "available", "bound", "healthy", "succeeded", "completed"), True),
    **dict.fromkeys(("failed", "error", "degraded", "lost", "invalid"), False),
    **dict.fromkeys(("pending", "creating", "provisioning", "initializing", "updating", "progressing"), None),
}


def resource_health(live: dict[str, Any]) -> Health:
    """Judge an object by its status; one without a status is healthy by existing, unless it is an app."""
    status = status_of(live)
    if not status:
        return _judge_without_status(live)
    generation = live["metadata"].get("generation", 0)
    if waiting := _judge_observation(status, generation):
        return waiting
    for kind in NEGATIVE:
        if has_condition(live, kind):
            return degraded(condition_message(condition(live, kind)) or kind)
    spec = live.get("spec")
    suspends = isinstance(spec, dict) and spec.get("suspend") is True
    if has_condition(live, "Paused") or has_condition(live, "Suspended") or suspends:
        return suspended("it is suspended")
    for kind in POSITIVE:
        positive = condition(live, kind)
        if positive is not None:
            return _judge_condition(positive, generation)
    if has_condition(live, "Reconciling") or has_condition(live, "Progressing"):
        return progressing(condition_message(condition(live, "Reconciling") or condition(live, "Progressing")))
    return _judge_phase(status)


def _judge_without_status(live: dict[str, Any]) -> Health:
    """Judge an object without a status.

    Most kinds never have a status and are healthy by existing. An app has one as soon as an operator sees it.
    """
    if live["apiVersion"].partition("/")[0] == OWN_GROUP and "spec" in live:
        return Health(State.UNKNOWN, "no operator has reported on it yet")
    return healthy()


def _judge_observation(report: dict[str, Any], generation: int) -> Health | None:
    """Return the health if a status or condition is about an older spec, or if that is unclear; else None.

    Some controllers write the number as text.
    """
    observed = report.get("observedGeneration")
    if observed is None:
        return None
    if isinstance(observed, int | str) and re.fullmatch(r"\d{1,18}", str(observed)):
        return progressing("waiting for its controller to see the change") if int(observed) < generation else None
    return Health(State.UNKNOWN, f"its observedGeneration is no number: {str(observed)[:40]!r}")


def _judge_condition(report: dict[str, Any], generation: int) -> Health:
    if waiting := _judge_observation(report, generation):
        return waiting
    if report.get("status") == "True":
        return healthy(condition_message(report))
    message = condition_message(report) or f"{report['type']} is {report.get('status', 'Unknown')}"
    if report.get("status") == "False" and _FAULT.search(str(report.get("reason", ""))):
        return degraded(message)
    return progressing(message)


def _judge_phase(status: dict[str, Any]) -> Health:
    phase = status.get("phase") or status.get("state")
    good = _PHASES.get(str(phase).lower(), True) if isinstance(phase, str) else True
    if good is None:
        return progressing(str(phase))
    if good is False:
        return degraded(str(status.get("message") or phase))
    return healthy(str(phase) if isinstance(phase, str) else "")
