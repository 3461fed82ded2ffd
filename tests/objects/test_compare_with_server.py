"""What the API server makes of a manifest must not look like a change: applied for real, read back, compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from fleet.objects.compare import Change, compare
from fleet.objects.desired import Key
from fleet.objects.fields import owned_fields
from fleet.objects.normalise import normalise

if TYPE_CHECKING:
    from fleet.testing import Cluster

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
  annotations: {}
spec:
  replicas: 2
  paused: false
  minReadySeconds: 0
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: "25%"}}
  template:
    metadata:
      creationTimestamp: null
      labels: {app: web}
    spec:
      nodeSelector: {}
      hostNetwork: false
      terminationGracePeriodSeconds: 30
      securityContext: {}
      tolerations:
      - {key: a, operator: Exists}
      - {key: b, operator: Equal, value: "1", effect: NoSchedule}
      containers:
      - name: web
        image: web:1
        args: ["--a", "--b"]
        ports:
        - {containerPort: 80}
        - {containerPort: 53, protocol: UDP}
        env:
        - {name: B, value: ""}
        - {name: A, value: "1"}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: MEM, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1024Ki}}}
        resources:
          requests: {cpu: 0.5, memory: 1024Mi}
          limits: {cpu: 1000m, memory: 2147483648, ephemeral-storage: 1e9}
        livenessProbe: {httpGet: {path: /, port: 80}}
      - name: side
        image: side:1
      volumes:
      - {name: scratch, emptyDir: {sizeLimit: 2048Ki}}
      - name: config
        configMap: {name: settings, items: [{key: a, path: a}]}
      - name: token
        projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3600}}]}
"""

MANIFESTS = f"""
{DEPLOYMENT}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec:
  selector: {{app: web}}
  ports:
  - {{name: http, port: 80, targetPort: 8080}}
  - {{name: dns, port: 53, targetPort: dns, protocol: UDP}}
  - {{name: dns-tcp, port: 53}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{a: "1000m", b: "", c: "80"}}
---
apiVersion: v1
kind: Secret
metadata: {{name: login}}
stringData: {{password: geheim}}
data: {{user: cm9vdA==}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  serviceName: db
  podManagementPolicy: Parallel
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec:
      containers: [{{name: db, image: "db:1"}}]
      topologySpreadConstraints:
      - {{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: db}}}}}}
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1024Mi}}}}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web}}
spec:
  podSelector: {{}}
  policyTypes: [Ingress]
  ingress:
  - from: [{{podSelector: {{matchLabels: {{app: db}}}}}}]
    ports: [{{port: 80}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: web}}
spec:
  minReplicas: 1
  maxReplicas: 3
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
  metrics:
  - {{type: Resource, resource: {{name: cpu, target: {{type: AverageValue, averageValue: 1000m}}}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web}}
spec: {{maxUnavailable: 1, selector: {{matchLabels: {{app: web}}}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1024Mi}}}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: web}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: web}}
subjects: [{{kind: User, name: eva}}, {{kind: ServiceAccount, name: web, namespace: default}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: web}}
spec:
  rules:
  - http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: quota}}
spec: {{hard: {{cpu: 1000m, pods: 10}}}}
---
apiVersion: v1
kind: LimitRange
metadata: {{name: limits}}
spec: {{limits: [{{type: Container, default: {{cpu: 500m}}, max: {{cpu: 2000m}}}}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec:
  schedule: "0 3 * * *"
  suspend: false
  jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: "a:1"}}]}}}}}}}}
"""


def apply(cluster: Cluster, manifest: dict[str, Any], manager: str = "fleet") -> dict[str, Any]:
    text = json.dumps(normalise(manifest))
    command = ["apply", "--server-side", "--force-conflicts", "-n", cluster.namespace, "-f", "-", "-o", "json"]
    live: dict[str, Any] = json.loads(
        cluster.kubectl(*command, f"--field-manager={manager}", "--show-managed-fields", input=text)
    )
    return live


def differences(manifest: dict[str, Any], live: dict[str, Any], *, strict: bool = False) -> tuple[Change, ...]:
    return compare(normalise(manifest), live, owned_fields(live), key=Key.of(live), strict=strict)


def paths(changes: tuple[Change, ...]) -> list[str]:
    return [change.path for change in changes]


@pytest.mark.parametrize("manifest", list(yaml.safe_load_all(MANIFESTS)), ids=lambda manifest: str(manifest["kind"]))
def test_an_object_just_applied_does_not_differ(cluster: Cluster, manifest: dict[str, Any]) -> None:
    live = apply(cluster, manifest)
    assert differences(manifest, live) == ()


def test_every_kind_of_edit_is_seen_and_gone_after_one_apply(cluster: Cluster) -> None:
    manifest = yaml.safe_load(DEPLOYMENT)
    live = apply(cluster, manifest)
    pod = manifest["spec"]["template"]["spec"]
    web = pod["containers"][0]
    del manifest["metadata"]["labels"]["app"]
    manifest["metadata"]["labels"]["tier"] = "gold"
    web["args"].append("--c")
    web["ports"].pop(0)
    web["env"].reverse()
    web["resources"]["limits"]["cpu"] = "1100m"
    del web["livenessProbe"]
    pod["containers"].pop(1)
    pod["tolerations"][1]["value"] = "2"
    pod["volumes"][0] = {"name": "scratch", "emptyDir": {}}
    changes = differences(manifest, live)
    assert paths(changes) == [
        "metadata.labels.app",
        "metadata.labels.tier",
        "spec.template.spec.containers[name=side]",
        "spec.template.spec.containers[name=web].args",
        "spec.template.spec.containers[name=web].env",
        "spec.template.spec.containers[name=web].livenessProbe.httpGet.path",
        "spec.template.spec.containers[name=web].livenessProbe.httpGet.port",
        "spec.template.spec.containers[name=web].ports[containerPort=80,protocol=TCP]",
        "spec.template.spec.containers[name=web].resources.limits.cpu",
        "spec.template.spec.tolerations[1].value",
        "spec.template.spec.volumes[name=scratch].emptyDir.sizeLimit",
    ]
    assert differences(manifest, apply(cluster, manifest)) == ()


def test_a_field_of_another_manager_is_no_difference_and_stays(cluster: Cluster) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "both"},
        "data": {"ours": "1", "old": "1"},
    }
    apply(cluster, manifest)
    theirs = {**manifest, "data": {"theirs": "1"}}
    live = apply(cluster, theirs, manager="other")
    assert differences(manifest, live) == ()
    manifest = {**manifest, "data": {"ours": "1"}}
    assert paths(differences(manifest, live)) == ["data.old"]
    live = apply(cluster, manifest)
    assert live["data"] == {"ours": "1", "theirs": "1"}
    assert differences(manifest, live) == ()


def test_a_field_that_somebody_took_over_is_seen(cluster: Cluster) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken"}, "data": {"a": "1", "b": ""}}
    apply(cluster, manifest)
    command = ["-n", cluster.namespace, "patch", "configmap", "taken", "--type=merge"]
    cluster.kubectl(*command, "-p", '{"data": {"a": "2", "b": null}}')
    shown = cluster.kubectl("-n", cluster.namespace, "get", "configmap", "taken", "-o", "json", "--show-managed-fields")
    live = json.loads(shown)
    assert differences(manifest, live) == (Change("data.a", "2", "1"), Change("data.b", None, ""))


def test_what_is_taken_out_of_an_atomic_list_is_seen_when_asked_strictly(cluster: Cluster) -> None:
    policy = next(one for one in yaml.safe_load_all(MANIFESTS) if one["kind"] == "NetworkPolicy")
    policy["spec"]["ingress"][0]["ports"][0]["endPort"] = 90
    live = apply(cluster, policy)
    del policy["spec"]["ingress"][0]["ports"][0]["endPort"]
    assert differences(policy, live) == ()  # it could be a default of the server's
    assert "spec.ingress[0].ports[0].endPort" in paths(differences(policy, live, strict=True))
    assert "endPort" not in apply(cluster, policy)["spec"]["ingress"][0]["ports"][0]
