"""A NATS as a person sets it up, and as the app that it becomes."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

from fleet.lab.cluster.api import Api
from tests.operator.app_on_nodes import App, Object

NAME = "messages"
MANIFESTS = """
apiVersion: v1
kind: Service
metadata: {name: messages}
spec:
  clusterIP: None
  selector: {run: messages}
  ports: [{name: client, port: 4222}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: messages, labels: {team: shop}}
spec:
  serviceName: messages
  replicas: 1
  selector: {matchLabels: {run: messages}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {run: messages}}
    spec:
      terminationGracePeriodSeconds: 10
      securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
      containers:
        - name: broker
          image: @image@
          command: [nats-server, --jetstream, --store_dir=/jetstream, --http_port=8222]
          ports: [{name: client, containerPort: 4222}, {name: monitor, containerPort: 8222}]
          readinessProbe: {httpGet: {path: /healthz, port: monitor}, periodSeconds: 1}
          resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}
          volumeMounts: [{name: disk, mountPath: /jetstream}]
  volumeClaimTemplates:
    - metadata: {name: disk}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 128Mi}}}
"""


@dataclass(frozen=True)
class NatsByHand(App):
    """The app is called as the StatefulSet."""

    name: str = NAME

    def set_up(self, version: str) -> None:
        """As its owner did, long before anybody thought of an operator; and until it serves."""
        text = MANIFESTS.replace("@image@", self.engine.image.format(series=version))
        self.cluster.kubectl("apply", "-f", "-", input=text)
        self.wait("it serves", lambda: self.stateful()["status"].get("readyReplicas") == 1)

    def stateful(self) -> Object:
        found: Object = self.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{NAME}")
        return found

    def described(self) -> dict[str, Any]:
        """Return what a person means by the StatefulSet."""
        found = self.stateful()
        own = {name: found["metadata"].get(name) for name in ("uid", "labels")}
        return {**own, "spec": {**found["spec"]}}

    def asked_size(self) -> str:
        claim = self.api.get(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/disk-{NAME}-0")
        return str(claim["spec"]["resources"]["requests"]["storage"])

    def pods(self, api: Api | None = None) -> dict[str, Object]:
        found = (api or self.api).get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {one["metadata"]["name"]: one for one in found if self._is_member(one["metadata"]["name"])}

    def tls(self) -> ssl.SSLContext | None:
        return None
