"""Where Services lead that the operator keeps: EndpointSlices that follow what members say of themselves. Pure.

It is the best that can be had from outside. Where the operator does not run, is paused or does not reach the API
server, a Service leads where it led; clients that must not reach a former primary ask the engine itself. So what is
certain counts and nothing else: two that say they take writes are none, unless one of them knows of more, and one that
does not answer stays where it is while its kubelet calls it ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.app_type import AppService, AppType, Role
from fleet.kit.observe.observation import MemberState, Observation
from fleet.kit.observe.world import Object, is_leaving, is_ready
from fleet.model.app import App
from fleet.names import OPERATOR

A = TypeVar("A", bound=App)
FAMILIES = ("IPv4", "IPv6")
SERVICE = "kubernetes.io/service-name"  # the label by which kube-proxy finds the slices of a Service
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"  # without it the controller of slices takes it for its own


def make_endpoint_slices(app_type: AppType[A], observation: Observation[A]) -> list[Object]:
    """Return the slices of the Services that the operator keeps, by what was observed of all roles."""
    app = observation.app
    if app.adoption is not None:  # whoever set it up made its Services, and keeps them
        return []
    observed = {role.role.name: role for role in observation.roles if role.role.count}
    slices: list[Object] = []
    for service in app_type.services:
        if service.kept_by == "operator" and service.role in observed:
            slices += _slices(app_type, observed[service.role], service)
    return slices


def _slices(app_type: AppType[A], observation: Observation[A], service: AppService) -> Iterator[Object]:
    app, role = observation.app, app_type.role(service.role)
    name = names.role_name(app, service.name)
    present = {family: observation.world.get("EndpointSlice", _slice_name(name, family)) for family in FAMILIES}
    known = {pod for found in present.values() if found is not None for pod in _pods_in(found)}
    chosen = choose_pods(observation, service, known, app_type.ranks)
    for family in FAMILIES:
        endpoints = [entry for pod in chosen if (entry := _endpoint(observation, pod, family)) is not None]
        if family == "IPv4" or endpoints or present[family] is not None:
            yield _slice(app, role, name, family, endpoints)


def _slice_name(service: str, family: str) -> str:
    return f"{service}-{family.lower()}"


def _slice(app: App, role: Role[Any], service: str, family: str, endpoints: list[Object]) -> Object:
    metadata = names.metadata(app, _slice_name(service, family), role.name)
    ports = [port for port in role.ports if port.used_by == "clients"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {**metadata["labels"], SERVICE: service, MANAGED_BY: OPERATOR}},
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{"name": port.name, "port": port.number, "protocol": "TCP"} for port in ports],
    }


def _endpoint(observation: Observation[A], pod: str, family: str) -> Object | None:
    """Return a pod as an endpoint; None where it has no address of that family."""
    found = observation.world.pod(pod)
    status = (found or {}).get("status", {})
    addresses = [str(entry["ip"]) for entry in status.get("podIPs") or () if entry.get("ip")]
    addresses = addresses or [str(status["podIP"])] * bool(status.get("podIP"))
    own = [address for address in addresses if f"IPv{ip_address(address).version}" == family]
    if found is None or not own:
        return None
    ready = is_ready(found)
    node = found["spec"].get("nodeName")
    return {
        "addresses": own[:1],
        "conditions": {"ready": ready, "serving": ready, "terminating": is_leaving(found)},
        **({"nodeName": node} if node else {}),
        "targetRef": {"kind": "Pod", "name": pod, "namespace": observation.app.namespace},
    }


def _pods_in(found: Object) -> Iterator[str]:
    return (str((entry.get("targetRef") or {}).get("name", "")) for entry in found.get("endpoints") or ())


def choose_pods(observation: Observation[A], service: AppService, known: set[str], ranks: tuple[str, ...]) -> list[str]:
    """Return the pods that a Service is to lead to. `known` are those that it leads to now."""
    pods = [pod for pod in observation.pods if observation.pod_stays(pod)]
    silent = {pod for pod in pods if pod not in observation.states and pod in known}
    if service.to == "every":
        return pods
    if service.to == "ready":
        return [pod for pod in pods if pod in silent or observation.is_in_step(pod)]
    claims = {pod: state for pod in pods if (state := observation.states.get(pod)) and takes_writes(state, ranks)}
    if service.to == "primary":
        return _primary(claims, sorted(silent))
    answered = {pod: observation.states[pod] for pod in pods if pod in observation.states and pod not in claims}
    return [pod for pod in pods if pod in silent or (pod in answered and not answered[pod].obstacle)]


def takes_writes(state: MemberState, ranks: tuple[str, ...]) -> bool:
    """Tell whether a member says that it takes writes: it leads, or is of the rank that does."""
    return state.leads or (len(ranks) > 1 and state.role == ranks[0])


def _primary(claims: dict[str, MemberState], silent: list[str]) -> list[str]:
    """Return the one that takes writes for certain; the one of before while it is silent and nobody else says so."""
    if not claims:
        return silent[:1]
    most = max(state.knowledge for state in claims.values())
    first = [pod for pod, state in claims.items() if state.knowledge == most]
    return first if len(first) == 1 else []
