"""What a server's schema has against manifests: the server itself, asked to try them strictly, is the measure."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fleet.kube import schema
from fleet.kube.client.client import Client
from fleet.kube.openapi import openapi_document
from fleet.objects.desired import Key
from fleet.testing import Cluster
from tests.kube.with_client import connected

PLAIN = "a text as it is goes into stringData of a Secret, or data of a ConfigMap"
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
RIGHT += [  # though the schema says that something is required, or not among what is allowed
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r"},
     "roleRef": {"kind": "ClusterRole", "name": "view"}},
    {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"}, "spec": {}},
    {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"},
     "spec": {"limits": [{"type": "example.com/Thing", "max": {"cpu": "1"}}]}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}},
    deployment(container={"imagePullPolicy": ""}),
    deployment(container={"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}),
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "eHh4\neHh4\r\n", "b": ""}},
    *(deployment(container={"resources": {"limits": {"memory": amount}}})
      for amount in (0, 1.5, "1", ".5Gi", "1.", "+1Gi", "1e3", "1E3", "128974848000m", "1Ei")),
]  # fmt: skip
WRONG = [
    (deployment(container={"imagePullPolicy": "Allways"}), "spec.template.spec.containers[0].imagePullPolicy",
     "needs one of Always, IfNotPresent, Never there, and has 'Allways'", "did you mean 'Always'?"),
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
    *((deployment(container={"resources": {"limits": {"memory": amount}}}),
       "spec.template.spec.containers[0].resources.limits.memory",
       f"needs a quantity there, and has another text ({amount!r})", hint)
      for amount, hint in [
          *((wrong, f"did you mean {meant!r}?") for wrong, meant in (("1GB", "1G"), ("1 Gi", "1Gi"), ("9MiB", "9Mi"))),
          *((wrong, "as 500m, 2, 512Mi or 10Gi") for wrong in ("", "much", "1gi", "1K"))]),
    ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "pass word"}}, "data.a",
     "needs base64 there, and has another text", PLAIN),
    ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "binaryData": {"a": "eA"}}, "binaryData.a",
     "needs base64 there, and has another text ('eA')", PLAIN),
    (deployment(container={"env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]}),
     "spec.template.spec.containers[0].env[2]",
     "has the name 'A' of the entry spec.template.spec.containers[0].env[0]", "leave one of both out"),
    (deployment(container={"ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}),
     "spec.template.spec.containers[0].ports[1]",
     "has the containerPort '80', protocol 'TCP' of the entry spec.template.spec.containers[0].ports[0]",
     "leave one of both out"),
    (deployment(replicas=3_000_000_000), "spec.replicas",
     "needs a number below 2147483648 there, and has a larger one", None),
]  # fmt: skip


async def _known(client: Client, manifest: dict[str, Any]) -> list[schema.Mistake]:
    key = Key.of(manifest)
    found = await openapi_document(client, (key.group, manifest["apiVersion"].rpartition("/")[2]))
    assert found is not None
    return schema.find_mistakes(key, manifest, found, created=True)


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


def without(manifest: dict[str, Any], *trail: str | int) -> dict[str, Any]:
    """A copy that does not have one field."""
    copy = deepcopy(manifest)
    parent: Any = copy
    for part in trail[:-1]:
        parent = parent[part]
    del parent[trail[-1]]
    return copy


def named(api: str, kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, **content}


POD = {
    "containers": [{**CONTAINER, "env": [{"name": "A"}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    "volumes": [{"name": "v", "emptyDir": {}}],
}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
SET = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
JOB = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
REFERENCE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
RULES = [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]}}]
SCALED = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}
PATH = ("spec", "rules", 0, "http", "paths", 0)
# By definition: an object that has one of it, and where.
WHOLE: dict[str, tuple[dict[str, Any], tuple[str | int, ...]]] = {
    "apps.v1.DaemonSetSpec": (named("apps/v1", "DaemonSet", spec=SET), ("spec",)),
    "apps.v1.DeploymentSpec": (named("apps/v1", "Deployment", spec=SET), ("spec",)),
    "apps.v1.ReplicaSetSpec": (named("apps/v1", "ReplicaSet", spec=SET), ("spec",)),
    "apps.v1.StatefulSetSpec": (named("apps/v1", "StatefulSet", spec={**SET, "serviceName": "a"}), ("spec",)),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": (
        named("autoscaling/v2", "HorizontalPodAutoscaler", spec=SCALED),
        ("spec",),
    ),
    "batch.v1.CronJobSpec": (
        named("batch/v1", "CronJob", spec={"schedule": "0 3 * * *", "jobTemplate": {"spec": JOB}}),
        ("spec",),
    ),
    "batch.v1.JobSpec": (named("batch/v1", "Job", spec=JOB), ("spec",)),
    "core.v1.Container": (named("v1", "Pod", spec=POD), ("spec", "containers", 0)),
    "core.v1.ContainerPort": (named("v1", "Pod", spec=POD), ("spec", "containers", 0, "ports", 0)),
    "core.v1.EnvVar": (named("v1", "Pod", spec=POD), ("spec", "containers", 0, "env", 0)),
    "core.v1.PodSpec": (named("v1", "Pod", spec=POD), ("spec",)),
    "core.v1.ServicePort": (named("v1", "Service", spec={"ports": [{"port": 80}]}), ("spec", "ports", 0)),
    "core.v1.Volume": (named("v1", "Pod", spec=POD), ("spec", "volumes", 0)),
    "core.v1.VolumeMount": (named("v1", "Pod", spec=POD), ("spec", "containers", 0, "volumeMounts", 0)),
    "networking.v1.HTTPIngressPath": (named("networking.k8s.io/v1", "Ingress", spec={"rules": RULES}), PATH),
    "rbac.v1.ClusterRoleBinding": (named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", roleRef=REFERENCE), ()),
    "rbac.v1.PolicyRule": (
        named(
            "rbac.authorization.k8s.io/v1", "Role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        ),
        ("rules", 0),
    ),
    "rbac.v1.RoleBinding": (named("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef=REFERENCE), ()),
    "rbac.v1.RoleRef": (named("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef=REFERENCE), ("roleRef",)),
    "storage.v1.StorageClass": (named("storage.k8s.io/v1", "StorageClass", provisioner="example.com/x"), ()),
}


def test_what_is_said_to_be_missing_is_what_the_server_insists_on(cluster: Cluster) -> None:
    assert {f"io.k8s.api.{name}" for name in WHOLE} == set(schema._INSISTED)

    async def compare(client: Client) -> None:
        for name, (manifest, trail) in WHOLE.items():
            assert await _tried(client, manifest, cluster.namespace) in (200, 201), name
            assert await _known(client, manifest) == [], name
            for field in schema._INSISTED[f"io.k8s.api.{name}"]:
                less = without(manifest, *trail, field)
                assert await _tried(client, less, cluster.namespace) in (400, 422, 500), (name, field)
                found = await _known(client, less)
                assert [mistake.message for mistake in found] == [f"needs a field {field!r} there, and has none"], name
                assert found[0].field.rpartition(".")[2] == field

    connected(cluster, compare)


def test_of_an_object_that_is_there_already_nothing_is_missed(cluster: Cluster) -> None:
    async def look(client: Client) -> list[schema.Mistake]:
        found = await openapi_document(client, ("apps", "v1"))
        assert found is not None
        wrong = without(deployment(container={"imagePullPolicy": "Allways"}), "spec", "selector")
        return schema.find_mistakes(Key.of(wrong), wrong, found)

    assert connected(cluster, look) == []


def test_a_definition_is_kept_to_the_letter_but_for_what_has_a_default() -> None:
    properties = {
        "size": {"type": "string", "enum": ["small", "large"]},
        "count": {"type": "integer", "default": 1},
        "code": {"type": "string", "format": "password", "enum": ["", "open"]},
    }
    spec = {"type": "object", "required": ["size", "count"], "properties": properties}
    whole = {
        "type": "object",
        "required": ["spec", "status"],
        "properties": {"spec": spec, "status": {"type": "object"}},
    }
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": whole}}]
    known = schema.defined_by({"spec": {"group": "e.io", "names": {"kind": "Thing"}, "versions": versions}})

    def wrong(**content: Any) -> list[tuple[str, str, str | None]]:
        thing = named("e.io/v1", "Thing", **content)
        assert schema.find_mistakes(Key.of(thing), thing, known) == []
        return [tuple(one) for one in schema.find_mistakes(Key.of(thing), thing, known, created=True)]  # type: ignore[misc]

    assert wrong(spec={"size": "small"}) == []
    assert wrong() == [("spec", "needs a field 'spec' there, and has none", None)]
    assert wrong(spec={"count": 2}) == [("spec.size", "needs a field 'size' there, and has none", None)]
    told = "needs one of small, large there, and has 'smal'"
    assert wrong(spec={"size": "smal"}) == [("spec.size", told, "did you mean 'small'?")]
    assert wrong(spec={"size": "small", "code": "x"}) == [("spec.code", "needs one of , open there", None)]


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
    assert schema.find_mistakes(Key("", "ConfigMap", "shop", "settings"), config_map(a=1), known) == []
