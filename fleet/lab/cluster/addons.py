"""Objects that every new cluster of a lab gets: storage, DNS, rights of the lab's own programs, simulated nodes."""

from __future__ import annotations

from typing import Any

from fleet.lab.spec import ClusterSpec

PROVISIONER = "lab.fleet.dev/node-volume"
WATCH = ["get", "list", "watch"]


def addons(cluster: ClusterSpec) -> list[dict[str, Any]]:
    """Return the objects of a cluster, in the order in which they are applied."""
    objects = [_storage_class(), *_provisioner_rights()]
    if cluster.network:
        return [*objects, *_dns(cluster), *_proxy_rights()]
    return [
        *objects,
        *_simulation_rights(),
        *(simulated_node(cluster.node_name(i + 1)) for i in range(cluster.workers)),
    ]


def _storage_class() -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": annotations},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _rights(name: str, rules: list[dict[str, Any]], user: str = "") -> list[dict[str, Any]]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"system:{user or name}"}
    api = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def _provisioner_rights() -> list[dict[str, Any]]:
    return _rights(
        "fleet-lab-provisioner",
        [
            _rule("", ["persistentvolumeclaims"], WATCH),
            _rule("", ["persistentvolumeclaims/status"], ["update"]),
            _rule("", ["persistentvolumes"], [*WATCH, "create", "update", "delete"]),
            _rule("storage.k8s.io", ["storageclasses"], WATCH),
        ],
    )


def _proxy_rights() -> list[dict[str, Any]]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-proxy"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    return [{**binding, "metadata": {"name": "fleet-lab-proxy"}, "roleRef": role, "subjects": [subject]}]


def _dns(cluster: ClusterSpec) -> list[dict[str, Any]]:
    """Return the objects of the cluster's DNS.

    CoreDNS runs beside the control plane, not in a pod: names work before the first node does, and on any.
    """
    ports = [{"name": protocol.lower(), "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    metadata: dict[str, Any] = {"name": "kube-dns", "namespace": "kube-system"}
    labels = {"kubernetes.io/service-name": "kube-dns"}
    return [
        *_rights(
            "fleet-lab-coredns",
            [
                _rule("", ["services", "pods", "namespaces"], WATCH),
                _rule("discovery.k8s.io", ["endpointslices"], WATCH),
            ],
        ),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**metadata, "labels": {"k8s-app": "kube-dns"}},
            "spec": {"clusterIP": cluster.dns, "ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [cluster.gateway], "conditions": {"ready": True}}],
            "ports": ports,
        },
    ]


def _simulation_rights() -> list[dict[str, Any]]:
    """Return the rights of the provisioner as the kubelet of simulated nodes."""
    everything = [*WATCH, "create", "update", "patch", "delete"]
    return _rights(
        "fleet-lab-simulation",
        [
            _rule("", ["nodes", "pods"], everything),
            _rule("", ["nodes/status", "pods/status"], ["update", "patch"]),
            _rule("coordination.k8s.io", ["leases"], everything),
        ],
        user="fleet-lab-provisioner",
    )


def simulated_node(name: str) -> dict[str, Any]:
    """Return a node that the provisioner keeps alive: as large as scheduling needs, with nothing behind it."""
    resources = {"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "simulated"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"lab.fleet.dev/simulated": "true"}},
        "status": {"allocatable": resources, "capacity": resources},
    }
