"""Who reaches the pods of an app: a NetworkPolicy for each role, where the app says so. Pure.

Members, Jobs of the app and the operator reach all ports whatever an app says: otherwise it could not be looked after.
Probes need no rule: Kubernetes lets in what comes from the node that a pod runs on. What pods reach themselves, name
servers among it, is left alone. Policies add up, and the cluster's network enforces them, or does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.app_type import METRICS, AppType, Port, Role
from fleet.kit.observe.world import World, is_leaving
from fleet.model.app import App
from fleet.model.network_settings import Access, AllowedPeer, network_of
from fleet.names import APP, OPERATOR, SYSTEM

A = TypeVar("A", bound=App)
Manifest = dict[str, Any]
KIND = "fleet.dev/kind"
NAMESPACE = "kubernetes.io/metadata.name"  # the label that each namespace has


def network_policies(app_type: AppType[A], app: A) -> list[Manifest]:
    """Return the policies of an app that says who reaches it, one for each role; none for any other."""
    access = network_of(app).access
    return [] if access is None else [_policy(app, role, access) for role in app_type.roles_of(app)]


def list_unasked_policies(app_type: AppType[A], app: A, world: World) -> list[Manifest]:
    """Return the policies that were made for an app that asks for none any more; others with our labels are not
    touched.
    """
    if network_of(app).access is not None:
        return []
    made = (world.get("NetworkPolicy", names.role_name(app, role.name)) for role in app_type.roles)
    return [policy for policy in made if policy is not None and not is_leaving(policy)]


def _policy(app: App, role: Role[Any], access: Access) -> Manifest:
    labels = names.labels(app, role.name)
    own = {name: labels[name] for name in (APP, KIND)}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE: SYSTEM}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": OPERATOR}},
    }
    rules: list[Manifest] = [
        {"from": [{"podSelector": {"matchLabels": own}}, operator], "ports": _ports(role.ports)},
        *_rule(access.clients, [port for port in role.ports if port.used_by == "clients"]),
        *_rule(access.metrics, [port for port in role.ports if port.name == METRICS]),
    ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": names.metadata(app, names.role_name(app, role.name), role.name),
        "spec": {
            # With what the operator alone gives: a chart may call the pods of a release as the selector of a role does
            "podSelector": {"matchLabels": {**names.selector(app, role.name), **own}},
            "policyTypes": ["Ingress"],
            "ingress": rules,
        },
    }


def _rule(peers: Sequence[AllowedPeer], ports: Sequence[Port]) -> list[Manifest]:
    """Return what lets peers in to ports; nothing without either, since an empty list would let everybody in."""
    return [{"from": list(map(_peer, peers)), "ports": _ports(ports)}] if peers and ports else []


def _ports(ports: Sequence[Port]) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port.number} for port in ports]


def _peer(peer: AllowedPeer) -> Manifest:
    if peer.addresses is not None:
        return {"ipBlock": {"cidr": peer.addresses}}
    said = {"namespaceSelector": peer.namespaces, "podSelector": peer.pods}
    return {name: {"matchLabels": dict(labels)} for name, labels in said.items() if labels}
