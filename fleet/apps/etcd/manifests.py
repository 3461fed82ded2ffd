"""The objects that an etcd is made of. Pure, and stable across releases of the operator: a changed byte in the pod
template restarts members, so nothing in it depends on the operator's version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.apps.etcd import names
from fleet.apps.etcd.files import file_name, files, revision
from fleet.apps.etcd.ledger import LEDGER, Ledger
from fleet.apps.etcd.spec import Etcd
from fleet.kit.template import hashed
from fleet.kit.tls import TRUST
from fleet.model.app import ROLL

USER = 65532
Manifest = dict[str, Any]


def metadata(app: Etcd, name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": app.namespace, "labels": names.labels(app), **more}


def surroundings(app: Etcd) -> list[Manifest]:
    """All that stands around the members and holds nothing: Services and the budget for evictions."""
    ports = [_port("client", names.CLIENT), _port("peer", names.PEER)]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(app, names.peers_service(app)),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,  # members must find each other before any is ready
                "selector": names.selector(app),
                "ports": ports,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(app, app.name),
            "spec": {"selector": names.selector(app), "ports": ports[:1]},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(app, app.name),
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": names.selector(app)},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        },
    ]


def members_map(app: Etcd, ledger: Ledger, present: Mapping[str, str], used: Iterable[str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(app, names.members_map(app), annotations={LEDGER: ledger.write()}),
        "data": files(app, ledger, present, used),
    }


def template(app: Etcd, image: str, trust: str = "") -> Manifest:
    """Of the pods. `trust` names the set of CAs, once there has been more than one: etcd reads it only at its start."""
    made = _template(app, image)
    said = {TRUST: trust, ROLL: app.roll}
    if annotations := {name: value for name, value in said.items() if value}:
        made["metadata"]["annotations"] = annotations
    return hashed(made)


def _template(app: Etcd, image: str) -> Manifest:
    mounts = [
        {"name": names.DATA, "mountPath": names.MOUNT},
        {"name": "members", "mountPath": names.MEMBER_FILES, "readOnly": True},
    ]
    volumes: list[Manifest] = [{"name": "members", "configMap": {"name": names.members_map(app)}}]
    if app.tls.enabled:
        for what, secret in (("server", names.server_secret(app)), ("peer", names.peer_secret(app))):
            mounts.append({"name": what, "mountPath": f"/etc/etcd/{what}", "readOnly": True})
            volumes.append({"name": what, "secret": {"secretName": secret, "defaultMode": 0o440}})
    limits = {"memory": app.resources.memory_limit or app.resources.memory}
    if app.resources.cpu_limit:
        limits["cpu"] = app.resources.cpu_limit
    container = {
        "name": names.CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["etcd"],
        "args": [f"--config-file={names.MEMBER_FILES}/{file_name('$(POD_NAME)', revision(app))}"],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [
            {"name": "client", "containerPort": names.CLIENT},
            {"name": "peer", "containerPort": names.PEER},
            {"name": "metrics", "containerPort": names.METRICS},
        ],
        "readinessProbe": {  # true only with a majority, and never for a learner: no client comes to one
            "httpGet": {"path": "/health", "port": "metrics"},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 2,
        },
        "resources": {"requests": {"cpu": app.resources.cpu, "memory": app.resources.memory}, "limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",  # why a member did not start is in its last words
        "volumeMounts": mounts,
    }
    return {
        "metadata": {"labels": names.labels(app)},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 30,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": key,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": names.selector(app)},
                }
                for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
            ],
            "containers": [container],
            "volumes": volumes,
        },
    }


def stateful_set(app: Etcd, template: Manifest, *, replicas: int) -> Manifest:
    """As it is first made. Nothing is held back yet: founders have nothing to lose."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(app, app.name),
        "spec": {
            "replicas": replicas,
            "serviceName": names.peers_service(app),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "selector": {"matchLabels": names.selector(app)},
            "template": template,
            "volumeClaimTemplates": [claim_template(app)],
        },
    }


def claim_template(app: Etcd) -> Manifest:
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": app.storage}}}
    if app.volume.storage_class:
        spec["storageClassName"] = app.volume.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": names.DATA, "labels": names.labels(app)},
        "spec": spec,
    }


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
