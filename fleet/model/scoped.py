"""The kinds of Kubernetes itself that belong to the cluster and to no namespace: rendering asks no server."""

from __future__ import annotations

CLUSTER_SCOPED = frozenset(
    (group, kind)
    for group, kinds in {
        "": "Namespace Node PersistentVolume",
        "admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
        "ValidatingWebhookConfiguration",
        "apiextensions.k8s.io": "CustomResourceDefinition",
        "apiregistration.k8s.io": "APIService",
        "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
        "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
        "networking.k8s.io": "IngressClass IPAddress ServiceCIDR",
        "node.k8s.io": "RuntimeClass",
        "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
        "resource.k8s.io": "DeviceClass ResourceSlice",
        "scheduling.k8s.io": "PriorityClass",
        "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
        "storagemigration.k8s.io": "StorageVersionMigration",
    }.items()
    for kind in kinds.split()
)
