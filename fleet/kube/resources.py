"""Well-known resources, and the namespace in each cluster where `fleet` keeps its inventories and Leases."""

from __future__ import annotations

from fleet.errors import ResourceError
from fleet.kube.client import errors
from fleet.kube.client.client import Client
from fleet.kube.objects import apply
from fleet.objects.resource import NEVER, Resource

NAMESPACE = "fleet-system"
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", True)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)


async def make_namespace(client: Client) -> None:
    """Create the namespace if it is missing; leave an existing one as it is. Raise ResourceError if it fails."""
    labels = {"app.kubernetes.io/managed-by": "fleet"}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    answer = await apply(client, NAMESPACES, manifest, force=False, resourceVersion=NEVER)
    if answer.status in (404, 422):
        raise ResourceError(f"{client.place}: cannot make namespace {NAMESPACE}: {errors.error_text(answer.body)}")
