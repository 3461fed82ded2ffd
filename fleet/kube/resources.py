"""The namespace in each cluster where `fleet` keeps what it has to remember there: inventories and Leases."""

from __future__ import annotations

from fleet.errors import ResourceError
from fleet.kube.client import errors
from fleet.kube.client.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.objects import NEVER, apply

NAMESPACE = "fleet-system"
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", True)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)


async def make_namespace(client: Client) -> None:
    """Make it where it is missing; one that is there is left as it is."""
    labels = {"app.kubernetes.io/managed-by": "fleet"}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    answer = await apply(client, NAMESPACES, manifest, force=False, resourceVersion=NEVER)
    if answer.status in (404, 422):
        raise ResourceError(f"{client.place}: cannot make namespace {NAMESPACE}: {errors.error_text(answer.body)}")
