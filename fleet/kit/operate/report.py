"""The status of an app's custom resource, from what was seen and decided. Pure.

Times change only when a condition does, and nothing that moves all the time is in it: a status that says nothing new
is not written.
"""

from __future__ import annotations

import datetime
from typing import Any

from fleet.kit.operate.engine import Report
from fleet.kit.status import Condition, LastBackup, Status
from fleet.kit.step import Decision, State

HEALTH = {
    State.OK: "Healthy",
    State.PROGRESSING: "Progressing",
    State.DEGRADED: "Degraded",
    State.BLOCKED: "Degraded",
    State.UNCERTAIN: "Unknown",
}
LONGEST = 2000


def status(
    manifest: dict[str, Any], decision: Decision, report: Report, endpoint: str, now: datetime.datetime
) -> dict[str, Any]:
    """Return the status in Kubernetes' form."""
    generation = int(manifest["metadata"].get("generation", 0))
    before = {one["type"]: one for one in manifest.get("status", {}).get("conditions", ())}
    paused = bool(manifest.get("spec", {}).get("paused"))
    conditions = [
        _condition(before, generation, now, one)
        for one in (*_conditions(decision, report, paused=paused), *report.conditions)
    ]
    serving = sum(member.ready for member in report.members)
    made = Status(
        observed_generation=generation,
        health=_health(decision, report, paused=paused),  # type: ignore[arg-type]
        message=decision.message[:LONGEST] or None,
        version=report.version,
        desired_version=report.desired_version,
        image_template=report.image_template,
        ready=f"{serving}/{report.wanted}",
        replicas=len(report.members),
        members=report.members,
        leader=report.leader,
        identity=report.identity,
        endpoint=endpoint,
        last_backup=report.last_backup,
        conditions=tuple(conditions),
    )
    return made.model_dump(by_alias=True, exclude_none=True, mode="json")


def known_backup(manifest: dict[str, Any]) -> LastBackup | None:
    """Return the last backup from the status as it is."""
    found = manifest.get("status", {}).get("lastBackup")
    return LastBackup.model_validate(found, by_alias=True, by_name=False) if found else None


def _health(decision: Decision, report: Report, *, paused: bool) -> str:
    if report.available is False and decision.state in (State.BLOCKED, State.DEGRADED):
        return "Failed" if decision.state is State.BLOCKED else "Degraded"
    if paused:
        return "Paused"
    return HEALTH[decision.state]


def _conditions(decision: Decision, report: Report, *, paused: bool) -> list[tuple[str, str, str, str]]:
    state, reason, message = decision.state, decision.reason, decision.message[:LONGEST]
    available = {True: "True", False: "False", None: "Unknown"}[report.available]
    serving = "clients are served" if report.available else "clients are not served"
    wrong = state in (State.DEGRADED, State.BLOCKED)
    found = [
        ("Ready", "True" if state is State.OK else "False", reason, message),
        ("Available", available, "Serving" if report.available else reason, serving if report.available else message),
        ("Progressing", "True" if state is State.PROGRESSING else "False", reason, message),
        ("Degraded", "True" if wrong else "False", reason, message),
        ("Blocked", "True" if state is State.BLOCKED else "False", reason, message),
    ]
    if paused:
        found.append(("Paused", "True", "Paused", "the operator changes nothing"))
    return found


def _condition(
    before: dict[str, Any], generation: int, now: datetime.datetime, wanted: tuple[str, str, str, str]
) -> Condition:
    kind, value, reason, message = wanted
    known = before.get(kind, {})
    same = known.get("status") == value
    since = known.get("lastTransitionTime") if same else None
    return Condition(
        type=kind,
        status=value,  # type: ignore[arg-type]
        reason=reason or "Unknown",
        message=message,
        last_transition_time=since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        observed_generation=generation,
    )
