"""The objects that an app's pods are made from: StatefulSets with their pod templates, Services, budgets, claims.

They follow from an app type's declaration alone, and are stable across releases of the operator: a changed byte in a
pod template restarts members, so nothing in it depends on the operator's version.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.app_type import AppService, AppType, DataVolume, Port, Ready, Role
from fleet.kit.credentials.tls import TRUST
from fleet.kit.credentials.users import secret_name
from fleet.kit.driver import Problem
from fleet.kit.workload.access import network_policies
from fleet.kit.workload.accounts import make_account, mount_token, token_volume
from fleet.kit.workload.escalation import list_escalations
from fleet.kit.workload.files import file_name, revision
from fleet.kit.workload.pod_settings import UNPRIVILEGED, arrange
from fleet.kit.workload.template import hashed
from fleet.model.app import ROLL, App
from fleet.model.app_settings import Resources
from fleet.model.network_settings import Expose, exposure_of, metrics_of, network_of
from fleet.model.pod_settings import Pods, pods_of_app

A = TypeVar("A", bound=App)
Manifest = dict[str, Any]
_POD_NAME = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
_PASSWORD = re.compile(r"\{password:([^{}]+)\}")
_FILES = "members"  # the volume with the configuration files


def surroundings(app_type: AppType[A], app: A) -> list[Manifest]:
    """Return all that stands around the members and holds nothing: Services, budgets for evictions, and accounts."""
    roles = {role.name: role for role in app_type.roles_of(app)}
    return [
        *(_peers_service(app, role) for role in roles.values()),
        *(
            _service(app_type, app, roles[service.role], service)
            for service in app_type.services
            if service.role in roles
        ),
        *_metrics_services(app_type, app),
        *network_policies(app_type, app),
        *(_budget(app, role) for role in roles.values()),
        *(manifest for role in roles.values() for manifest in make_account(app, role)),
    ]


def _peers_service(app: App, role: Role[Any]) -> Manifest:
    ports = [port for port in role.ports if port.used_by != "probes"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.metadata(app, names.peers_service(app, role.name), role.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # members must find each other before any is ready
            "selector": names.selector(app, role.name),
            **_families(app),
            "ports": list(map(_service_port, ports)),
        },
    }


def _families(app: App) -> Manifest:
    network = network_of(app)
    policy = {"ipFamilyPolicy": network.ip_family_policy} if network.ip_family_policy else {}
    return {**policy, **({"ipFamilies": list(network.ip_families)} if network.ip_families else {})}


def _metrics_services(app_type: AppType[A], app: A) -> list[Manifest]:
    """Return the Service by which what members measure is found, if the app asks for one: it leads to each of them,
    whether clients are served or not.
    """
    if not metrics_of(app).service or (port := app_type.metrics_port) is None:
        return []
    annotations = dict(metrics_of(app).annotations)
    own = names.metadata(app, names.metrics_service(app))
    own |= {"annotations": annotations} if annotations else {}
    spec: Manifest = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": names.selector(app)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": own,
            "spec": {**spec, **_families(app), "ports": [_service_port(port)]},
        }
    ]


def _service(app_type: AppType[Any], app: App, role: Role[Any], service: AppService) -> Manifest:
    """Return a Service for clients. One that the agent or the operator keeps has no selector: its endpoints are theirs
    to write.
    """
    ports = [_service_port(port) for port in role.ports if port.used_by == "clients"]
    expose = exposure_of(app) if service == app_type.services[0] else Expose()
    selector = {"selector": names.selector(app, role.name)} if service.kept_by == "selector" else {}
    unready = {"publishNotReadyAddresses": True} if service.to == "every" else {}
    more = {"annotations": dict(expose.annotations)} if expose.annotations else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.metadata(app, names.role_name(app, service.name), role.name, **more),
        "spec": {**selector, **unready, **_exposed(expose, ports), **_families(app), "ports": ports},
    }


def _exposed(expose: Expose, ports: list[Manifest]) -> Manifest:
    """Return what the app says of its Service, and add the ports of nodes to its ports."""
    chosen = {chosen.port: chosen.number for chosen in expose.node_ports}
    for port in ports:
        if port["name"] in chosen:
            port["nodePort"] = chosen[port["name"]]
    said = {
        "type": expose.type if expose.type != "ClusterIP" else None,
        "externalTrafficPolicy": expose.traffic_policy,
        "loadBalancerClass": expose.load_balancer_class,
        "loadBalancerSourceRanges": list(expose.source_ranges),
    }
    return {name: value for name, value in said.items() if value}


def _service_port(port: Port) -> Manifest:
    return {"name": port.name, "port": port.number, "targetPort": port.name, "protocol": "TCP"}


def _budget(app: App, role: Role[Any]) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": names.metadata(app, names.role_name(app, role.name), role.name),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": names.selector(app, role.name)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def pod_template(app_type: AppType[A], app: A, image: str, trust: str = "", role: str = "") -> Manifest:
    """Return the template of a role's pods, with its mark. `trust` names the set of CAs, once there has been more than
    one: it is for engines that read whom to trust only at their start.
    """
    template = arrange(declared_template(app_type, app, image, role), app, pods_of_app(app), container_resources)
    values = {TRUST: trust, ROLL: app.roll}
    if annotations := {name: value for name, value in values.items() if value}:
        template["metadata"]["annotations"] = {**template["metadata"].get("annotations", {}), **annotations}
    return hashed(template)


def declared_template(app_type: AppType[A], app: A, image: str, role: str = "") -> Manifest:
    """Return the template of a role's pods as its type declares it, before the app says anything of its pods."""
    return _template(app_type, app, image, app_type.role(role))


def list_escalations_of(app_type: AppType[A], app: A) -> tuple[Problem, ...]:
    """Return what the pods of an app would have that none may have, by role; nothing for pods that others described."""
    if pods_of_app(app) == Pods():
        return ()
    if app.adoption is not None:
        return (Problem("pods", "is not for members that were taken over: their pods stay as they were found"),)
    found: dict[Problem, None] = {}
    for role in app_type.roles_of(app):
        declared = declared_template(app_type, app, "", role.name)
        arranged = arrange(declared, app, pods_of_app(app), container_resources)
        found |= dict.fromkeys(list_escalations(arranged, declared, connection=names.secret(app, "connection")))
    return tuple(found)


def _template(app_type: AppType[A], app: A, image: str, role: Role[A]) -> Manifest:
    container = _container(app_type, app, image, role)
    shared = ("image", "imagePullPolicy", "env", "resources", "securityContext", "terminationMessagePolicy")
    prepare = [
        {
            **{name: container[name] for name in (*shared, "volumeMounts")},
            "name": f"prepare-{number}",
            "command": _fill(app_type, app, role, command),
        }
        for number, command in enumerate(role.prepare)
    ]
    return {
        "metadata": {"labels": names.labels(app, role.name)},
        "spec": {
            **({"serviceAccountName": names.account(app, role.name)} if role.rights else {}),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": role.grace,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": role.user,
                "runAsGroup": role.user,
                "fsGroup": role.user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": key,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": names.selector(app, role.name)},
                }
                for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
            ],
            **({"initContainers": prepare} if prepare else {}),
            "containers": [container],
            "volumes": list(_volumes(app_type, app, role)),
        },
    }


def _container(app_type: AppType[A], app: A, image: str, role: Role[A]) -> Manifest:
    hook = {"exec": {"command": _fill(app_type, app, role, role.before_stop)}}
    arguments = _fill(app_type, app, role, role.arguments)
    return {
        "name": role.container or names.engine(app),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": _fill(app_type, app, role, role.command),
        **({"args": arguments} if arguments else {}),
        "env": [copy.deepcopy(_POD_NAME), *_environment(app_type, app, role)],
        "ports": [{"name": port.name, "containerPort": port.number} for port in role.ports],
        "readinessProbe": _probe(app_type, app, role, role.ready),
        **({"lifecycle": {"preStop": hook}} if role.before_stop else {}),
        "resources": container_resources(role.resources(app)),
        "securityContext": copy.deepcopy(UNPRIVILEGED),
        "terminationMessagePolicy": "FallbackToLogsOnError",  # why a member did not start is in its last words
        "volumeMounts": list(_mounts(app_type, app, role)),
    }


def _environment(app_type: AppType[A], app: A, role: Role[A]) -> Iterator[Manifest]:
    """Yield the variables that a role declares. A container starts with the passwords that users have then."""
    known = {user.name for user in app_type.users_of(app)}
    for name, text in role.environment.items():
        if (password := _PASSWORD.fullmatch(text)) is None:
            yield {"name": name, "value": _fill(app_type, app, role, [text])[0]}
            continue
        if password[1] not in known:
            raise ValueError(f"{app_type.name} has no user {password[1]!r}, whose password {name} is to be")
        reference = {"name": secret_name(app.name, password[1]), "key": "password"}
        yield {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _probe(app_type: AppType[A], app: A, role: Role[A], ready: Ready) -> Manifest:
    handler: Manifest
    if ready.http is not None:
        path, port = ready.http
        handler = {"httpGet": {"path": path, "port": port}}
    elif ready.tcp:
        handler = {"tcpSocket": {"port": ready.tcp}}
    else:
        handler = {"exec": {"command": _fill(app_type, app, role, ready.command)}}
    times = {"periodSeconds": ready.period, "timeoutSeconds": ready.timeout, "failureThreshold": ready.failures}
    return {**handler, **times}


def container_resources(resources: Resources) -> Manifest:
    """Return requests and limits of a container. Without a limit of its own, memory is limited to what is requested."""
    limits = {"memory": resources.memory_limit or resources.memory}
    if resources.cpu_limit:
        limits["cpu"] = resources.cpu_limit
    return {"requests": {"cpu": resources.cpu, "memory": resources.memory}, "limits": limits}


def _mounts(app_type: AppType[A], app: A, role: Role[A]) -> Iterator[Manifest]:
    yield from ({"name": volume.name, "mountPath": volume.path} for volume in role.volumes)
    if role.files:
        yield {"name": _FILES, "mountPath": role.files, "readOnly": True}
    for number, path in enumerate(role.scratch):
        yield {"name": f"scratch-{number}", "mountPath": path}
    for purpose, path in role.certificates.items() if app_type.is_encrypted(app) else ():
        yield {"name": purpose, "mountPath": path, "readOnly": True}
    if role.rights:
        yield mount_token()


def _volumes(app_type: AppType[A], app: A, role: Role[A]) -> Iterator[Manifest]:
    if role.files:
        yield {"name": _FILES, "configMap": {"name": names.members_map(app)}}
    for number in range(len(role.scratch)):
        yield {"name": f"scratch-{number}", "emptyDir": {}}
    for purpose in role.certificates if app_type.is_encrypted(app) else ():
        yield {"name": purpose, "secret": {"secretName": names.secret(app, purpose), "defaultMode": 0o440}}
    if role.rights:
        yield token_volume()


def _fill(app_type: AppType[A], app: A, role: Role[A], words: Sequence[str]) -> list[str]:
    """Return the words of a command with names and paths in the place of what stands for them."""
    values = {"{pod}": "$(POD_NAME)", "{files}": role.files, "{data}": role.volumes[0].path if role.volumes else ""}
    return [_fill_word(word, values, revision(app_type, app, role.name) if "{file:" in word else "") for word in words]


def _fill_word(word: str, values: dict[str, str], revision: str) -> str:
    word = re.sub(r"\{file:([^}]+)\}", lambda match: f"{{files}}/{file_name('{pod}', revision, match[1])}", word)
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def stateful_set(app_type: AppType[A], app: A, template: Manifest, *, replicas: int, role: str = "") -> Manifest:
    """Return a role's StatefulSet as it is first made. Nothing is held back yet: founders have nothing to lose."""
    volumes = app_type.role(role).volumes
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": names.metadata(app, names.role_name(app, role), role),
        "spec": {
            "replicas": replicas,
            "serviceName": names.peers_service(app, role),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "selector": {"matchLabels": names.selector(app, role)},
            "template": template,
            "volumeClaimTemplates": [claim_template(app, volume, role) for volume in volumes],
        },
    }


def claim_template(app: A, volume: DataVolume[A], role: str = "") -> Manifest:
    """Return the template of the claims for a volume."""
    requests = {"storage": volume.size(app)}
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}}
    if storage_class := volume.storage_class(app):
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": volume.name, "labels": names.labels(app, role)},
        "spec": spec,
    }
