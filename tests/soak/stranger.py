"""Somebody else in the clusters, with another name and other tools; and the eyes of the soak. Never through a proxy."""

from __future__ import annotations

import datetime
import http.client
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from fleet.lab.cluster.api import ClusterAccess

AGENT = "stranger"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
OURS = "fleet.dev/stack"
SEEN = 1000  # a generation that no app here comes to: its operator has seen the newest one


@dataclass
class Stranger:
    """One cluster. A request that finds nothing there gives None; one that fails otherwise is an error of the soak."""

    access: ClusterAccess
    _connection: http.client.HTTPSConnection | None = None

    def request(self, verb: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any] | None:
        if self._connection is None:
            context = ssl.create_default_context(cafile=str(self.access.authority))
            context.load_cert_chain(self.access.certificate, self.access.key)
            self._connection = http.client.HTTPSConnection(
                urlsplit(self.access.server).netloc, timeout=30, context=context
            )
        headers = {"User-Agent": AGENT, "Content-Type": kind}
        try:
            self._connection.request(verb, path, None if body is None else orjson.dumps(body), headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the server was started anew; an idle connection breaks, and is opened again
            self._connection = None
            raise
        if answer.status == 404:
            return None
        if answer.status >= 300:
            raise AssertionError(f"{verb} {path}: {answer.status} {content[:300]!r}")
        found: dict[str, Any] = orjson.loads(content)
        return found

    def again(self, verb: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any] | None:
        """Once more where the connection was an old one."""
        try:
            return self.request(verb, path, body, kind)
        except (OSError, http.client.HTTPException):
            return self.request(verb, path, body, kind)

    def maps(self, namespace: str) -> dict[str, dict[str, Any]]:
        """Every ConfigMap there, by name, but the one that Kubernetes itself puts everywhere."""
        found = self.again("GET", f"/api/v1/namespaces/{namespace}/configmaps")
        items = (found or {}).get("items", [])
        return {one["metadata"]["name"]: one for one in items if one["metadata"]["name"] != "kube-root-ca.crt"}

    def patch(self, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any] | None:
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager={AGENT}"
        return self.again("PATCH", path, body, MERGE)

    def delete(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.again("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")

    def own(self, namespace: str, name: str, value: str) -> dict[str, Any] | None:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager={AGENT}&force=true"
        return self.again("PATCH", path, manifest, APPLY)

    def report(self, namespace: str, health: str, app: str = "app") -> dict[str, Any] | None:
        """How an app is, as an operator says it."""
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kind, reason = ("Ready", "AllWell") if health == "Healthy" else ("Degraded", "NoQuorum")
        said = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": reason,
            "lastTransitionTime": moment,
            "observedGeneration": SEEN,
        }
        path = f"/apis/fleet.dev/v1alpha1/namespaces/{namespace}/etcds/{app}/status?fieldManager={AGENT}"
        status = {"conditions": [said], "observedGeneration": SEEN}
        return self.again("PATCH", path, {"status": status}, MERGE)

    def squat(self, stack: str, skew: float) -> None:
        """A Lease of somebody elsewhere; if it is held just now, nothing."""
        moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=skew)
        text = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "ada@elsewhere (pid 7) 0123", "leaseDurationSeconds": 30}
        metadata = {"name": stack, "annotations": {"fleet.dev/process": "elsewhere/7/1.00"}}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        body = {**lease, "spec": {**spec, "acquireTime": text, "renewTime": text}}
        try:
            self.again("POST", "/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases", body)
        except AssertionError as refused:
            if ": 409 " not in str(refused):
                raise
