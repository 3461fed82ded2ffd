"""The definitions of apps in clusters that tests share."""

from __future__ import annotations

from fleet.testing.cluster import Cluster

ETCD = "etcds.fleet.dev"


def remove_definition(cluster: Cluster, name: str = ETCD) -> None:
    """Delete a definition with all its objects, also those of tests whose operator ended before it let them go."""
    if not cluster.kubectl("get", "crd", name, "--ignore-not-found", "-o", "name"):
        return
    for left in cluster.get(name, "--all-namespaces")["items"]:
        where = f"--namespace={left['metadata']['namespace']}"
        nothing = '{"metadata": {"finalizers": null}}'
        cluster.kubectl("patch", name, left["metadata"]["name"], where, "--type=merge", f"--patch={nothing}")
    cluster.kubectl("delete", "crd", name)
