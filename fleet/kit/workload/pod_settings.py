"""What an app says of its pods, put into the template that follows from its type. Where nothing is said it stays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleet.kit import names
from fleet.model.app import App
from fleet.model.app_settings import Resources
from fleet.model.pod_settings import Affinity, NodeMatch, PodMatch, PodOverrides, Pods, Sidecar, Toleration

Manifest = dict[str, Any]
CONNECTION = "fleet-connection"  # the volume with the Secret for the app's clients
SCRATCH = "fleet-scratch-"  # how volumes begin that a sidecar alone has
# What any container of a pod may do: nothing but run.
UNPRIVILEGED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def arrange(template: Manifest, app: App, settings: Pods, resources: Callable[[Resources], Manifest]) -> Manifest:
    """Return the template with what the app says of it; `resources` turns amounts into what a container has."""
    made = copy.deepcopy(template)
    own, spec = made["metadata"], made["spec"]
    if settings.labels:
        own["labels"] = {**settings.labels, **own["labels"]}
    if settings.annotations:
        own["annotations"] = {**settings.annotations, **own.get("annotations", {})}
    spec |= _place(settings)
    _spread(spec["topologySpreadConstraints"], settings)
    for place, sidecar in enumerate(settings.sidecars):
        scratch = {f"{SCRATCH}{place}-{number}": path for number, path in enumerate(sidecar.scratch)}
        spec["containers"].append(_sidecar(sidecar, scratch, resources(sidecar.resources)))
        spec["volumes"] += [{"name": name, "emptyDir": {}} for name in scratch]
    if any(sidecar.connection for sidecar in settings.sidecars):
        secret = {"secretName": names.secret(app, "connection"), "defaultMode": 0o440}
        spec["volumes"].append({"name": CONNECTION, "secret": secret})
    if settings.overrides is not None:
        _override(spec, settings.overrides)
    return made


def place_job(settings: Pods) -> Manifest:
    """Return what the pods of an app's Jobs have of it, which use members' image and volumes: where they may run."""
    placed = _place(settings)
    return {name: placed[name] for name in ("nodeSelector", "tolerations", "imagePullSecrets") if name in placed}


def _place(settings: Pods) -> Manifest:
    placed: Manifest = {}
    if settings.node_selector:
        placed["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        placed["tolerations"] = list(map(_toleration, settings.tolerations))
    if settings.affinity is not None and (affinity := _affinity(settings.affinity)):
        placed["affinity"] = affinity
    if settings.priority_class:
        placed["priorityClassName"] = settings.priority_class
    if settings.pull_secrets:
        placed["imagePullSecrets"] = [{"name": secret} for secret in settings.pull_secrets]
    return placed


def _toleration(toleration: Toleration) -> Manifest:
    seconds = {"tolerationSeconds": toleration.seconds} if toleration.seconds is not None else {}
    said = toleration.model_dump(include={"key", "operator", "value", "effect"}, exclude_none=True)
    return {**said, **seconds}


def _affinity(affinity: Affinity) -> Manifest:
    nodes: Manifest = {}
    if affinity.nodes:
        terms = [{"matchExpressions": list(map(_expression, affinity.nodes))}]
        nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if affinity.preferred_nodes:
        nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": 100 - 12 * place, "preference": {"matchExpressions": [_expression(match)]}}
            for place, match in enumerate(affinity.preferred_nodes)
        ]
    found = {
        "nodeAffinity": nodes,
        "podAffinity": _company(affinity.near),
        "podAntiAffinity": _company(affinity.apart),
    }
    return {kind: value for kind, value in found.items() if value}


def _expression(match: NodeMatch) -> Manifest:
    values = {"values": list(match.values)} if match.values else {}
    return {"key": match.key, "operator": match.operator, **values}


def _company(matches: Iterable[PodMatch]) -> Manifest:
    company: dict[str, list[Manifest]] = {}
    for match in matches:
        term = {"labelSelector": {"matchLabels": dict(match.labels)}, "topologyKey": match.within}
        if match.required:
            company.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
        else:
            weighted = {"weight": 100, "podAffinityTerm": term}
            company.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(weighted)
    return company


def _spread(constraints: list[Manifest], settings: Pods) -> None:
    """Say otherwise of what is there, and add what is not."""
    known = {constraint["topologyKey"]: constraint for constraint in constraints}
    selector = constraints[0]["labelSelector"]
    for spread in settings.spread:
        if spread.over not in known:
            known[spread.over] = {"topologyKey": spread.over, "labelSelector": copy.deepcopy(selector)}
            constraints.append(known[spread.over])
        known[spread.over] |= {
            "maxSkew": spread.max_skew,
            "whenUnsatisfiable": "DoNotSchedule" if spread.required else "ScheduleAnyway",
        }


def _sidecar(sidecar: Sidecar, scratch: Mapping[str, str], resources: Manifest) -> Manifest:
    mounts: list[Manifest] = [{"name": name, "mountPath": path} for name, path in scratch.items()]
    if sidecar.connection:
        mounts.append({"name": CONNECTION, "mountPath": sidecar.connection, "readOnly": True})
    return {
        "name": sidecar.name,
        "image": sidecar.image,
        "imagePullPolicy": "IfNotPresent",
        **({"command": list(sidecar.command)} if sidecar.command else {}),
        **({"args": list(sidecar.arguments)} if sidecar.arguments else {}),
        **({"env": [{"name": name, "value": value} for name, value in sidecar.env.items()]} if sidecar.env else {}),
        "resources": resources,
        "securityContext": copy.deepcopy(UNPRIVILEGED),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _override(spec: Manifest, overrides: PodOverrides) -> None:
    said = overrides.model_dump(by_alias=True, exclude_none=True, mode="json")
    security = said.pop("securityContext", {})
    spec |= {name: _without_empty(value) for name, value in said.items() if value}
    spec["securityContext"] |= security


def _without_empty(value: Any) -> Any:
    """Leave out lists of which nothing was said: a server stores none, and would call them a difference."""
    return {name: entry for name, entry in value.items() if entry} if isinstance(value, dict) else value
