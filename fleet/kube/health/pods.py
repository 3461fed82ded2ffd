"""Pods by themselves: those of a workload are judged with it."""

from __future__ import annotations

from typing import Any

from fleet.kube.health.state import Health, condition, degraded, healthy, holds, progressing, said, status_of
from fleet.printable import quote_output


def pod(found: dict[str, Any]) -> Health:
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Succeeded":
        return healthy("complete")
    if phase == "Failed":
        return degraded(status.get("message") or _exit(status) or status.get("reason") or "it failed", final=True)
    stuck = _stuck(status)
    if stuck:
        return degraded(stuck)
    if phase == "Running":
        return _running(found)
    scheduled = condition(found, "PodScheduled")
    if scheduled and scheduled.get("status") == "False":
        return progressing(f"not scheduled: {said(scheduled)}")
    return progressing("its containers are being made")


def _running(found: dict[str, Any]) -> Health:
    if found["spec"].get("restartPolicy", "Always") != "Always":
        return progressing("running to its end")
    if holds(found, "Ready"):
        return healthy("ready")
    for container in _containers(status_of(found)):
        ended = (container.get("lastState") or {}).get("terminated")
        if ended:
            reason = _last_line(ended.get("message")) or ended.get("reason") or f"exit code {ended.get('exitCode')}"
            return degraded(f"container {container['name']} ended and was restarted: {reason}")
    return progressing("not ready yet")


def _last_line(printed: Any) -> str:
    lines = [line for line in str(printed or "").splitlines() if line.strip()]
    return quote_output(lines[-1][:300]) if lines else ""


def _stuck(status: dict[str, Any]) -> str:
    """Why a container cannot start: the reasons that kubelet gives while it tries again and again."""
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason.startswith("Err") or reason.endswith(("Error", "BackOff", "ImageName", "NeverPull")):
            message = waiting.get("message")
            return f"container {container['name']}: {reason}{f': {message}' if message else ''}"
    return ""


def _exit(status: dict[str, Any]) -> str:
    for container in _containers(status):
        ended = (container.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            return f"container {container['name']}: {ended.get('reason', 'Error')}, exit code {ended['exitCode']}"
    return ""


def _containers(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
