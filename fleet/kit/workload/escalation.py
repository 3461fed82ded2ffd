"""What an app's pods would have beyond what its type declares and an app may say: then the operator does not make them.

Who may make an app need not be one who may make pods. Specs are checked when they are written, and by the API server;
this asks neither. It compares the template that would be written with the one that the type declares, and knows each
difference that there may be, so that a field that nobody thought of is one too many. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.kit.driver import Problem
from fleet.kit.workload.pod_settings import CONNECTION, SCRATCH, UNPRIVILEGED
from fleet.model.labels import is_acting_annotation
from fleet.model.pod_settings import SYSTEM_PRIORITY

Manifest = dict[str, Any]
_ASK = "leave it out: it is for those who may make pods themselves"
_MAY_COME = frozenset(
    {
        "nodeSelector",
        "tolerations",
        "affinity",
        "priorityClassName",
        "imagePullSecrets",
        "dnsPolicy",
        "dnsConfig",
        "hostAliases",
        "runtimeClassName",
        "schedulerName",
    }
)
_MAY_DIFFER = frozenset(
    {"topologySpreadConstraints", "terminationGracePeriodSeconds", "containers", "volumes", "securityContext"}
)
_NUMBERS = frozenset({"runAsUser", "runAsGroup", "fsGroup"})  # what a pod may say of its user, none of them root's
_OF_SIDECARS = frozenset(
    {
        "name",
        "image",
        "imagePullPolicy",
        "command",
        "args",
        "env",
        "resources",
        "securityContext",
        "terminationMessagePolicy",
        "volumeMounts",
    }
)


def list_escalations(template: Manifest, declared: Manifest, *, connection: str) -> list[Problem]:
    """Return what a template has that none may have; `declared` is that of the type, and `connection` the name of the
    Secret for the app's clients.
    """
    return [
        *_of_metadata(template["metadata"], declared["metadata"]),
        *_of_fields(template["spec"], declared["spec"]),
        *_of_security(template["spec"].get("securityContext") or {}, declared["spec"]["securityContext"]),
        *_of_containers(template["spec"], declared["spec"]),
        *_of_volumes(template["spec"], declared["spec"], connection),
    ]


def _of_metadata(own: Manifest, declared: Manifest) -> Iterator[Problem]:
    labels = own.get("labels") or {}
    for name, value in declared["labels"].items():
        if labels.get(name) != value:
            yield Problem("pods.labels", f"{name} is fleet's own, by which members are found", _ASK)
    for name in sorted(own.get("annotations") or {}):
        if is_acting_annotation(name) and name not in (declared.get("annotations") or {}):
            yield Problem("pods.annotations", f"{name} makes a pod more than its template says", _ASK)


def _of_fields(spec: Manifest, declared: Manifest) -> Iterator[Problem]:
    for name in sorted({*spec, *declared}):
        comes = name not in declared and name in _MAY_COME
        if not comes and name not in _MAY_DIFFER and spec.get(name) != declared.get(name):
            yield Problem("pods.overrides", f"{name} of pods is not an app's to say", _ASK)
    if str(spec.get("priorityClassName", "")).startswith(SYSTEM_PRIORITY):
        yield Problem("pods.priority_class", f"{spec['priorityClassName']} is for Kubernetes' own pods", _ASK)


def _of_security(security: Manifest, declared: Manifest) -> Iterator[Problem]:
    for name in sorted({*security, *declared}):
        value = security.get(name)
        is_number = name in _NUMBERS and isinstance(value, int) and not isinstance(value, bool) and value > 0
        if not is_number and name != "fsGroupChangePolicy" and value != declared.get(name):
            field = "pods.overrides.security_context"
            yield Problem(field, f"{name} of pods says what the kernel lets them do", _ASK)


def _of_containers(spec: Manifest, declared: Manifest) -> Iterator[Problem]:
    containers, own = spec.get("containers") or [], declared["containers"]
    if containers[: len(own)] != own:
        yield Problem("pods.overrides", "containers of fleet's own run, mount and may do what fleet says", _ASK)
    names = [str(container.get("name")) for container in (*own, *declared.get("initContainers", ()))]
    for container in containers[len(own) :]:
        yield from _of_sidecar(container, names)
        names.append(str(container.get("name")))


def _of_sidecar(container: Manifest, taken: list[str]) -> Iterator[Problem]:
    name, field = container.get("name"), "pods.sidecars"
    if name in taken:
        yield Problem(field, f"{name} is the name of another container", "choose another one")
    for key in sorted(container.keys() - _OF_SIDECARS):
        yield Problem(field, f"{name}: {key} is not a sidecar's to say", _ASK)
    if container.get("securityContext") != UNPRIVILEGED:
        yield Problem(field, f"{name}: a sidecar runs without any privilege", _ASK)
    if any(variable.keys() - {"name", "value"} for variable in container.get("env") or ()):
        yield Problem(field, f"{name}: its environment is of plain values", _ASK)
    for mount in container.get("volumeMounts") or ():
        if not str(mount.get("name")).startswith(SCRATCH) and mount.get("name") != CONNECTION:
            yield Problem(field, f"{name}: the volume {mount.get('name')} is the members'", _ASK)


def _of_volumes(spec: Manifest, declared: Manifest, connection: str) -> Iterator[Problem]:
    volumes, own = spec.get("volumes") or [], declared["volumes"]
    if volumes[: len(own)] != own:
        yield Problem("pods.overrides", "volumes of fleet's own are what members hold their data and keys in", _ASK)
    secret = {"name": CONNECTION, "secret": {"secretName": connection, "defaultMode": 0o440}}
    for volume in volumes[len(own) :]:
        is_scratch = str(volume.get("name")).startswith(SCRATCH) and volume.keys() == {"name", "emptyDir"}
        if not (is_scratch and volume["emptyDir"] == {}) and volume != secret:
            what = next((kind for kind in volume if kind != "name"), "empty")
            yield Problem("pods.overrides", f"volume {volume.get('name')} ({what}) is not an app's to mount", _ASK)
