"""What a server's schema has against manifests: the server itself, asked to try them strictly, is the measure."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kube import schema
from fleet.kube.client.client import Client
from fleet.objects.desired import Key
from fleet.testing import Cluster
from tests.kube.connected import connected

CONTAINER = {"name": "web", "image": "localhost/web", "ports": [{"containerPort": 80}]}


def config_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


def deployment(*, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{**CONTAINER, **(container or {})}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": whole}


RIGHT = [
    config_map(a="1", b=""),
    config_map(a=None),
    deployment(replicas=2, strategy={"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}),
    deployment(container={"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "args": None}),
    deployment(container={"livenessProbe": {"httpGet": {"port": "http", "path": "/"}}}),
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "1"}, "data": {"b": "eA=="}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "labels": {"a": "b"}},
     "spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"app": "web"}}},
    {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"},
     "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}},
    {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"},
     "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
     "metadata": {"name": "things.example.test"},
     "spec": {"group": "example.test", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
              "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                  "type": "object", "properties": {"spec": {"type": "object", "default": {"a": [1, "x"]},
                                                            "x-kubernetes-preserve-unknown-fields": True}}}}}]}},
]  # fmt: skip
WRONG = [
    (config_map(a=8080), "data.a", "needs a string there, and has a number (8080)", 'in quotes it is text: "8080"'),
    (config_map(a=True), "data.a", "needs a string there, and has a boolean (true)", 'in quotes it is text: "true"'),
    (deployment(replica=2), "spec.replica", "has no field 'replica' there", "did you mean 'replicas'?"),
    (deployment(replicas="two"), "spec.replicas", "needs a whole number there, and has a string (two)", None),
    (deployment(container={"imagePullPolice": "Always"}),
     "spec.template.spec.containers[0].imagePullPolice", "has no field 'imagePullPolice' there",
     "did you mean 'imagePullPolicy'?"),
    (deployment(container={"env": {"A": "b"}}), "spec.template.spec.containers[0].env",
     "needs a list there, and has an object", None),
    (deployment(container={"env": [{"name": "A", "value": 1}]}), "spec.template.spec.containers[0].env[0].value",
     "needs a string there, and has a number (1)", 'in quotes it is text: "1"'),
    ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": 12345}},
     "stringData.a", "needs a string there, and has a number", "in quotes it is text"),
    ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "labels": {"a": 1}}, "spec": {}},
     "metadata.labels.a", "needs a string there, and has a number (1)", 'in quotes it is text: "1"'),
]  # fmt: skip


async def _known(client: Client, manifest: dict[str, Any]) -> list[schema.Mistake]:
    key = Key.of(manifest)
    found = await schema.document(client, (key.group, manifest["apiVersion"].rpartition("/")[2]))
    assert found is not None
    return schema.mistakes(key, manifest, found)


async def _tried(client: Client, manifest: dict[str, Any], namespace: str) -> int:
    """The status of a strict dry run of a creation."""
    resource = (await client.discovery()).resource(Key.of(manifest))
    space = namespace if resource.namespaced else ""
    metadata = {**manifest["metadata"], **({"namespace": space} if space else {})}
    path = resource.path(space, metadata["name"])
    query = "?fieldManager=test&dryRun=All&fieldValidation=Strict"
    body, kind = {**manifest, "metadata": metadata}, "application/apply-patch+yaml"
    answer = await client.request("PATCH", path + query, body=body, content_type=kind, expect=(400, 422, 500))
    return answer.status


def test_what_the_server_takes_is_right_and_what_it_refuses_is_wrong_with_the_field(cluster: Cluster) -> None:
    async def compare(client: Client) -> None:
        for manifest in RIGHT:
            assert await _tried(client, manifest, cluster.namespace) in (200, 201), manifest
            assert await _known(client, manifest) == [], manifest
        for manifest, field, message, hint in WRONG:
            assert await _tried(client, manifest, cluster.namespace) in (400, 422, 500), manifest
            assert await _known(client, manifest) == [schema.Mistake(field, message, hint)], manifest

    connected(cluster, compare)


@pytest.mark.parametrize(
    "known", [{}, {"components": {"schemas": {}}}, {"components": {"schemas": {"x": {"type": "object"}}}}]
)
def test_of_a_kind_that_the_schema_does_not_have_nothing_is_said(known: dict[str, Any]) -> None:
    assert schema.mistakes(Key("", "ConfigMap", "shop", "settings"), config_map(a=1), known) == []
