"""A typing error in a manifest is named, with its field, and not sent again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet.apply.steps import StepOutcome, StepState
from fleet.kube.client.errors import dropped_fields
from fleet.testing import Cluster
from tests.apply.one_sync import sync, wanted
from tests.kube.with_client import agent, config_map, connected
from tests.served import wait_served


def synced(cluster: Cluster, *manifests: dict[str, Any]) -> StepOutcome | None:
    desired = wanted(cluster.namespace, *manifests)
    return connected(cluster, lambda client: sync(client, desired))


def problem(outcome: StepOutcome | None) -> Any:
    assert outcome is not None
    (failed,) = [result for result in outcome.results if result.state is StepState.FAILED]
    assert failed.certain
    return failed.error


def deployment(cluster: Cluster, **spec: Any) -> dict[str, Any]:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": cluster.namespace},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": pod, **spec},
    }


def test_a_typing_error_in_a_built_in_kind_is_an_error_at_its_place_and_leaves_no_intent(cluster: Cluster) -> None:
    mark = cluster.audit.mark()
    error = problem(synced(cluster, config_map(cluster, "a", x="1"), deployment(cluster, replica=3)))
    assert (str(error.source), error.field) == ("stacks/test.py:1", "spec.replica")
    assert "field not declared in schema" in error.message
    written = cluster.audit.writes(since=mark, agent=agent(cluster))
    assert [one.verb for one in written if one.resource == "deployments"] == ["patch"], "sent once"
    assert cluster.get("configmap", "a")["data"] == {"x": "1"}
    outcome = synced(cluster, config_map(cluster, "a", x="1"), deployment(cluster))
    assert outcome is not None
    assert outcome.ok


def test_a_change_with_a_typing_error_leaves_the_object_as_it_is(cluster: Cluster) -> None:
    assert synced(cluster, deployment(cluster)) is not None
    before = cluster.get("deployment", "web")
    error = problem(synced(cluster, deployment(cluster, minReadySecond=3)))
    assert error.field == "spec.minReadySecond"
    assert cluster.get("deployment", "web")["metadata"]["generation"] == before["metadata"]["generation"]


@pytest.fixture
def gadgets(cluster: Cluster) -> Iterator[str]:
    """A kind with an object of which the definition says nothing: the server takes all in it and keeps nothing."""
    group = f"{cluster.namespace[-6:]}.example.com"
    properties = {
        "name": {"type": "string"},
        "open": {"type": "object"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [version],
        },
    }
    cluster.apply(definition)
    wait_served(cluster, f"gadgets.{group}")
    yield group
    cluster.kubectl("delete", "crd", f"gadgets.{group}", "--wait=false")


def gadget(cluster: Cluster, group: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": cluster.namespace}
    return {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": metadata, "spec": spec}


def test_a_field_of_a_custom_resource_that_is_refused_or_dropped_is_an_error(cluster: Cluster, gadgets: str) -> None:
    assert problem(synced(cluster, gadget(cluster, gadgets, nam="x"))).field == "spec.nam"
    for _ in range(2):  # and not a difference that is sent for ever without a word
        error = problem(synced(cluster, gadget(cluster, gadgets, name="x", open={"a": {"b": 1}})))
        assert error.field == "spec.open.a"
        assert "does not keep spec.open.a of Gadget" in error.message
        assert str(error.source) == "stacks/test.py:1"
    fine = gadget(cluster, gadgets, name="x", open={}, free={"a": {"b": [1, {}]}})
    outcome = synced(cluster, fine)
    assert outcome is not None
    assert outcome.ok
    assert synced(cluster, fine) is None


def test_what_was_sent_and_is_not_there_is_named() -> None:
    sent = {"kind": "Gadget", "spec": {"a": 1, "list": [{"b": 1, "c": {}}], "gone": {}, "x/y": 0}}
    kept = {"kind": "Gadget", "spec": {"a": "1", "list": [{"b": 1, "default": 2}]}}
    assert dropped_fields("example.com", sent, kept) == ["spec.list[0].c", "spec.gone", "spec[x/y]"]
    assert dropped_fields("apps", sent, kept) == [], "built-in kinds leave out what is empty"
    assert dropped_fields("example.com", sent, sent) == []
