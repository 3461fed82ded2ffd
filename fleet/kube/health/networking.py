"""What waits for an address from outside."""

from __future__ import annotations

from typing import Any

from fleet.kube.health.state import Health, healthy, progressing, status_of


def service(found: dict[str, Any]) -> Health:
    if (found.get("spec") or {}).get("type") != "LoadBalancer":
        return healthy()
    return _balanced(found, "waiting for the address of its load balancer")


def ingress(found: dict[str, Any]) -> Health:
    return _balanced(found, "waiting for an address from its controller")


def _balanced(found: dict[str, Any], otherwise: str) -> Health:
    points = (status_of(found).get("loadBalancer") or {}).get("ingress") or ()
    addresses = [one.get("ip") or one.get("hostname") for one in points]
    return healthy(", ".join(address for address in addresses if address)) if points else progressing(otherwise)
