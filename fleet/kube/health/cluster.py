"""What a cluster is made of: namespaces, definitions, added API servers."""

from __future__ import annotations

from typing import Any

from fleet.kube.health.state import Health, condition, degraded, healthy, holds, progressing, said, status_of


def namespace(found: dict[str, Any]) -> Health:
    if status_of(found).get("phase") != "Terminating":
        return healthy()
    held = [said(one) for one in status_of(found).get("conditions") or () if one.get("status") == "True"]
    return progressing("; ".join(["being deleted", *held]))


def definition(found: dict[str, Any]) -> Health:
    names = condition(found, "NamesAccepted")
    if names and names.get("status") == "False":
        return degraded(said(names))
    if holds(found, "NonStructuralSchema"):
        return degraded(said(condition(found, "NonStructuralSchema")))
    if holds(found, "Terminating"):
        return progressing("being deleted")
    return healthy("established") if holds(found, "Established") else progressing("not established yet")


def api_service(found: dict[str, Any]) -> Health:
    one = condition(found, "Available")
    if one and one.get("status") == "True":
        return healthy("available")
    return progressing(said(one) or "not available yet")
