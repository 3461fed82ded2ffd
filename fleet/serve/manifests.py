"""Manifests of the service in a management cluster, in the order in which they are applied. Pure.

The service has no rights on what it manages: it reaches clusters with the kubeconfigs that users put into Secrets
beside it. Of the management cluster it needs the Lease of its replicas and those Secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.render.operator_rights import PART, RBAC, SYSTEM, system_namespace
from fleet.version import __version__

Manifest = dict[str, Any]
NAME = "fleet-serve"
MEMORY = "4Gi"  # of the service's pod: each preview is a process beside it, and so is each worker of an evaluation
PORT = 8080
USER = 65532
SELECTOR = {"app.kubernetes.io/name": NAME}
LABELS = {**SELECTOR, **PART}
GIT, KUBECONFIG = "fleet-git", "fleet-kubeconfig"  # Secrets that users make, besides one of our name; all optional
HOME, CACHE, CONTEXTS = "/home/fleet", "/cache", "/etc/fleet/kubeconfig"
SIGNERS, TRUST = "fleet-signers", "/etc/fleet/signers"  # the ConfigMap with the keys of signers, and its path


def manifests(image: str, arguments: Sequence[str], replicas: int, *, signers: str = "") -> list[Manifest]:
    """Return the manifests of the service.

    `signers` is the text of the file with the keys of those users whose commits are applied; "": any commit is applied.
    """
    trusted = {"name": SIGNERS, "namespace": SYSTEM}
    config_maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": trusted, "data": {"signers": signers}}]
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata()},
        _role(),
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": _metadata(),
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM}],
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _metadata(),
            "spec": {"selector": SELECTOR, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        },
        *(config_maps if signers else ()),
        _deployment(image, arguments, replicas, signers=signers),
    ]
    return [system_namespace(), *({**obj, "metadata": {**obj["metadata"], "labels": LABELS}} for obj in objects)]


def _metadata() -> Manifest:
    return {"name": NAME, "namespace": SYSTEM}


def _role() -> Manifest:
    group = "coordination.k8s.io"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata(),
        "rules": [
            {"apiGroups": [group], "resources": ["leases"], "verbs": ["create"]},  # cannot be limited to a name
            {"apiGroups": [group], "resources": ["leases"], "resourceNames": [NAME], "verbs": ["get", "update"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},  # kubeconfigs; git says which
        ],
    }


def _deployment(image: str, arguments: Sequence[str], replicas: int, *, signers: str) -> Manifest:
    spec = pod(image, [f"--signers={TRUST}/signers", *arguments] if signers else arguments)
    if signers:
        spec["containers"][0]["volumeMounts"].append({"name": "signers", "mountPath": TRUST, "readOnly": True})
        spec["volumes"].append({"name": "signers", "configMap": {"name": SIGNERS}})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": SELECTOR},
            "template": {
                "metadata": {"labels": {**LABELS, "app.kubernetes.io/version": __version__}},
                "spec": spec,
            },
        },
    }


def pod(image: str, arguments: Sequence[str], *, name: str = NAME, command: str = "serve") -> Manifest:
    """Return the pod spec that runs `fleet serve`, or another command that listens and has a copy of a repository."""
    is_service = name == NAME
    contexts = {"name": "kubeconfig", "mountPath": CONTEXTS, "readOnly": True}
    kubeconfig = {"secretName": KUBECONFIG, "optional": True, "defaultMode": 0o400}
    return {
        "serviceAccountName": name,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": command,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-P", "-m", "fleet", command],
                "args": [f"--listen=:{PORT}", f"--cache={CACHE}", "--log=json", *arguments],
                "env": [
                    {"name": "HOME", "value": HOME},  # where git looks for .gitconfig and its credentials
                    _from_secret(name, "FLEET_WEBHOOK_SECRET", "webhook"),
                    _from_secret(name, "FLEET_NOTIFY_SECRET", "notify"),
                    *([{"name": "KUBECONFIG", "value": f"{CONTEXTS}/kubeconfig"}] if is_service else ()),
                    *([_from_secret(name, "FLEET_FORGE_TOKEN", "forge-token")] if is_service else ()),
                ],
                "ports": [{"name": "http", "containerPort": PORT}],
                "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=6),
                "readinessProbe": _probe("/readyz", periodSeconds=2),
                "resources": {
                    "requests": {"cpu": "100m", "memory": "256Mi"},
                    "limits": {"memory": MEMORY if is_service else "1Gi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": "cache", "mountPath": CACHE},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the pod
                    {"name": "git", "mountPath": HOME, "readOnly": True},
                    *([contexts] if is_service else ()),
                ],
            }
        ],
        "volumes": [
            {"name": "cache", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "git", "secret": {"secretName": GIT, "optional": True, "defaultMode": 0o400}},
            *([{"name": "kubeconfig", "secret": kubeconfig}] if is_service else ()),
        ],
    }


def _from_secret(secret: str, variable: str, key: str) -> Manifest:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}}}


def _probe(path: str, **times: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5, **times}
