"""What would give an app's pods more than they may have, as custom resources have it, with words of the refusal.

Each is tried alone against the model, against the API server (the rules in CEL of the definition), and against the
operator, each time past the other two.
"""

from __future__ import annotations

from typing import Any

_HOST = "namespace of the node"
_ACCOUNT = "rights of another account"
_CONTAINERS = "what fleet's own containers run"
_KERNEL = "what the kernel lets"
_OTHERS = "other volumes and Secrets"
SIDECAR = {"name": "shipper", "image": "example.test/shipper:1"}

OVERRIDES: dict[str, tuple[Any, str]] = {
    "hostNetwork": (True, _HOST),
    "hostPID": (True, _HOST),
    "hostIPC": (True, _HOST),
    "hostUsers": (True, _HOST),
    "shareProcessNamespace": (True, "read what members hold"),
    "serviceAccountName": ("admin", _ACCOUNT),
    "serviceAccount": ("admin", _ACCOUNT),
    "automountServiceAccountToken": (True, _ACCOUNT),
    "volumes": ([{"name": "root", "hostPath": {"path": "/"}}], "directories of nodes and Secrets of others"),
    "containers": ([{"name": "etcd", "command": ["sh"]}], _CONTAINERS),
    "initContainers": ([{"name": "first", "image": "x", "securityContext": {"privileged": True}}], _CONTAINERS),
    "ephemeralContainers": ([{"name": "debug"}], _CONTAINERS),
    "nodeName": ("control-plane-1", "past the scheduler"),
    "hostname": ("other", "names by which they are found"),
    "subdomain": ("other", "names by which they are found"),
    "labels": ({"app.kubernetes.io/name": "other"}, "what Services and budgets select"),
    "selector": ({"matchLabels": {}}, "which pods are the app's"),
}
SECURITY: dict[str, Any] = {
    "privileged": True,
    "allowPrivilegeEscalation": True,
    "capabilities": {"add": ["SYS_ADMIN"]},
    "runAsNonRoot": False,
    "seccompProfile": {"type": "Unconfined"},
    "appArmorProfile": {"type": "Unconfined"},
    "seLinuxOptions": {"type": "spc_t"},
    "windowsOptions": {"hostProcess": True},
    "procMount": "Unmasked",
    "sysctls": [{"name": "kernel.msgmax", "value": "1"}],
    "supplementalGroups": [0],
}
OF_SIDECARS: dict[str, tuple[Any, str]] = {
    "securityContext": ({"privileged": True}, _KERNEL),
    "volumeMounts": ([{"name": "data", "mountPath": "/data"}], _OTHERS),
    "volumeDevices": ([{"name": "data", "devicePath": "/dev/x"}], _OTHERS),
    "envFrom": ([{"secretRef": {"name": "other-app-connection"}}], _OTHERS),
}
ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/etcd",
    "seccomp.security.alpha.kubernetes.io/pod",
    "kubernetes.io/psp",
    "k8s.v1.cni.cncf.io/networks",
    "sidecar.istio.io/userVolume",
    "sidecar.istio.io/userVolumeMount",
    "inject.istio.io/templates",
    "fleet.dev/template",
)
LABELS = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/managed-by",
    "controller-revision-hash",
    "fleet.dev/app",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
)

# What `pods` says, and a part of the refusal.
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"overrides": {name: value}}, words) for name, (value, words) in OVERRIDES.items()),
    *(
        ({"overrides": {"securityContext": {name: value}}}, _KERNEL if name != "supplementalGroups" else "other groups")
        for name, value in SECURITY.items()
    ),
    *(({"sidecars": [{**SIDECAR, name: value}]}, words) for name, (value, words) in OF_SIDECARS.items()),
    *(({"annotations": {name: "x"}}, "makes a pod more than its template says") for name in ANNOTATIONS),
    *(({"labels": {name: "x"}}, "a label of fleet's own") for name in LABELS),
    *(({"priorityClass": f"system-{what}-critical"}, "Kubernetes' own pods") for what in ("node", "cluster")),
    ({"sidecars": [{**SIDECAR, "name": "prepare-0"}]}, "a name that fleet's own containers have"),
]
# What is refused by bounds of a number or a form, whose words are the API server's own.
OUT_OF_BOUNDS: list[dict[str, Any]] = [
    {"overrides": {"securityContext": {"runAsUser": 0}}},
    {"overrides": {"securityContext": {"runAsGroup": 0}}},
    {"overrides": {"securityContext": {"fsGroup": 0}}},
    {"sidecars": [{**SIDECAR, "scratch": ["relative"]}]},
    {"sidecars": [SIDECAR, SIDECAR]},
    {"labels": {"team": "not a label!"}},
    {"labels": {"not a name!": "x"}},
    {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
    {"tolerations": [{"value": "v"}]},
    {"tolerations": [{"key": "k", "effect": "NoSchedule", "seconds": 5}]},
    {"affinity": {"nodes": [{"key": "disk"}]}},
    {"affinity": {"nodes": [{"key": "disk", "operator": "Exists", "values": ["a"]}]}},
    {"affinity": {"nodes": [{"key": "cpus", "operator": "Gt", "values": ["many"]}]}},
    {"spread": [{"over": "zone"}, {"over": "zone", "required": True}]},
    {"overrides": {"dnsPolicy": "None"}},
]
# What `expose` says and nothing would come of, or is not an app's to say; of an app without TLS.
EXPOSED_IN_VAIN: list[tuple[dict[str, Any], str]] = [
    ({"nodePorts": [{"number": 30379}]}, "NodePort and LoadBalancer alone"),
    ({"type": "NodePort", "nodePorts": [{"number": 30379}, {"number": 30380}]}, "names a port twice"),
    ({"type": "NodePort", "nodePorts": [{"number": 30379, "port": "peer"}]}, "client"),
    ({"type": "NodePort", "sourceRanges": ["192.0.2.0/24"]}, "by load balancers alone"),
    ({"type": "NodePort", "loadBalancerClass": "example.com/x"}, "of load balancers alone"),
    ({"trafficPolicy": "Local"}, "clients that come by a node"),
    ({"names": ["db.example.com"]}, "certificates, and the app has none"),
    *(
        ({"annotations": {name: "x"}}, "fleet or Kubernetes writes itself")
        for name in ("fleet.dev/released", "kubectl.kubernetes.io/last-applied-configuration")
    ),
    ({"type": "ExternalName"}, ""),
    ({"type": "NodePort", "nodePorts": [{"number": 0}]}, ""),
    ({"type": "NodePort", "externalIPs": ["192.0.2.7"]}, "externalIPs"),
    ({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.7"}, "loadBalancerIP"),
    ({"names": ["not a name"]}, ""),
]
