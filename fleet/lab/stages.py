"""How simulated nodes and pods behave: ready at once, Jobs complete, deletions finish. Rules for kwok, as data."""

from __future__ import annotations

from typing import Any

READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
DELETED = ".metadata.deletionTimestamp"
OWNER = ".metadata.ownerReferences.[].kind"
NODE_READY = """\
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- {type: {{ .type | Quote }}, status: {{ .status | Quote }}, reason: {{ .reason | Quote }},
   message: {{ .message | Quote }}, lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
addresses:
- {type: InternalIP, address: {{ NodeIP | Quote }}}
- {type: Hostname, address: {{ NodeName | Quote }}}
"""
POD_RUNNING = """\
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ range .spec.readinessGates }}
- {type: {{ .conditionType | Quote }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
{{ with PodIPsWith .spec.nodeName false ( or .metadata.uid "" ) .metadata.name ( or .metadata.namespace "" ) }}
podIP: {{ index . 0 | Quote }}
podIPs:
- {ip: {{ index . 0 | Quote }}}
{{ end }}
"""
POD_SUCCEEDED = """\
{{ $now := Now }}
phase: Succeeded
conditions:
- {type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
"""


def stages() -> list[dict[str, Any]]:
    alive = _where(DELETED, "DoesNotExist")
    return [
        _stage("node-ready", "Node", [_where(READY, "NotIn", "True")], {"statusTemplate": NODE_READY}),
        _stage(
            "pod-running",
            "Pod",
            [alive, _where(".status.phase", "In", "Pending"), _where(READY, "NotIn", "True")],
            {"statusTemplate": POD_RUNNING},
        ),
        _stage(
            "pod-succeeded",
            "Pod",
            [alive, _where(".status.phase", "In", "Running"), _where(OWNER, "In", "Job")],
            {"statusTemplate": POD_SUCCEEDED},
        ),
        _stage("pod-deleted", "Pod", [_where(DELETED, "Exists")], {"delete": True}),
    ]


def _where(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _stage(name: str, kind: str, conditions: list[dict[str, Any]], then: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": conditions},
            "next": then,
        },
    }
