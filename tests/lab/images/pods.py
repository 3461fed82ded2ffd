"""Engines in pods: run as their images say, not as root, with read-only configuration and data on a volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.lab.images.recipes import Recipe, find_recipes
from fleet.testing import Cluster

Manifest = dict[str, Any]


def engine(
    image: str,
    *,
    port: int,
    command: list[str] | None = None,
    environment: Mapping[str, str] | None = None,
    configuration: Mapping[str, Mapping[str, str]] | None = None,
    memory: str = "512Mi",
) -> list[Manifest]:
    """A pod of the image `NAME:VERSION` that is ready when `port` is open.

    `configuration` are directories with the texts of their files. $(ADDRESS) is the pod's own address.
    """
    recipe = recipe_of(image)
    name = name_of(image)
    volumes: list[Manifest] = [{"name": "data", "emptyDir": {}}]
    mounts: list[Manifest] = [{"name": "data", "mountPath": recipe.owned[0]}]
    objects: list[Manifest] = []
    for number, (directory, files) in enumerate((configuration or {}).items()):
        label = f"{name}-{number}"
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": label}, "data": dict(files)})
        volumes.append({"name": label, "configMap": {"name": label}})
        mounts.append({"name": label, "mountPath": directory, "readOnly": True})
    variables: list[Manifest] = [
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        *({"name": key, "value": value} for key, value in (environment or {}).items()),
    ]
    container = {
        "name": "engine",
        "image": recipe.reference,
        "env": variables,
        "volumeMounts": mounts,
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 300},
        "resources": {"limits": {"memory": memory}, "requests": {"memory": "0"}},
        **({"command": command} if command else {}),
    }
    spec = {
        "containers": [container],
        "volumes": volumes,
        "securityContext": {"runAsNonRoot": True},
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
    }
    labels = {"app": name}
    return [*objects, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}]


def start(cluster: Cluster, *images: str, timeout: int = 150) -> dict[str, str]:
    """Wait until the pods of these images are ready; their addresses, which this machine reaches, by image."""
    names = [name_of(image) for image in images]
    try:
        cluster.kubectl(
            "wait", "--for=condition=Ready", *(f"pod/{name}" for name in names), f"--timeout={timeout}s", timeout=600
        )
    except Exception as error:
        logs = [cluster.kubectl("logs", name, "--tail=40") for name in names]
        raise AssertionError("\n".join([cluster.kubectl("get", "pods", "-o", "wide"), *logs])) from error
    return {image: cluster.get("pod", name_of(image))["status"]["podIP"] for image in images}


def recipe_of(image: str) -> Recipe:
    return find_recipes(image)[0]


def name_of(image: str) -> str:
    return image.replace(":", "-").replace(".", "-")
