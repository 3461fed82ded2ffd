"""Deployments that kubectl or Helm made become part of a stack, by git and a sync: the same words, and no restart."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.sync.fleet_repository import FleetRepository

Object = dict[str, Any]
HOW = {  # how its owner applies it, what git says of that, and what the plan says
    "kubectl": (("apply",), "adopt=True", "belonged to field manager kubectl-client-side-apply"),
    "helm": (
        ("apply", "--server-side", "--field-manager=helm"),
        "adopt=fleet.Adopt(take_from=['helm'])",
        "belonged to field manager helm; fields are taken from helm",
    ),
}


def deployment(image: str = "example.test/web:1") -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image, "ports": [{"containerPort": 80}]}]},
            },
        },
    }


@pytest.mark.parametrize("owner", HOW)
def test_a_deployment_that_runs_becomes_part_of_a_stack_and_nothing_restarts(
    repository: FleetRepository, owner: str
) -> None:
    how, adopt, words = HOW[owner]
    eu = repository.clusters[0]
    eu.kubectl("create", "namespace", repository.namespace)
    eu.kubectl("-n", repository.namespace, *how, "-f", "-", input=yaml.safe_dump(deployment()))
    eu.kubectl("-n", repository.namespace, "rollout", "status", "deployment/web", "--timeout=60s")

    def running() -> tuple[Object, list[tuple[str, str]]]:
        text = eu.kubectl("-n", repository.namespace, "get", "rs,pods", "-o", "yaml")
        found = repository.get(eu, "deployment", "web")
        assert found is not None
        made = [(one["kind"], one["metadata"]["uid"]) for one in yaml.safe_load(text)["items"]]
        return {"generation": found["metadata"]["generation"], "spec": found["spec"]}, sorted(made)

    before = running()
    assert len(before[1]) == 3, "a ReplicaSet and two pods"
    repository.wants(f"fleet.Manifest({deployment()!r}, opts=Options({adopt}))", clusters=[eu.name])
    repository.commit()
    planned = repository.fleet("preview")
    assert planned.code == 0
    assert "» adopt      Deployment.apps" in planned.out
    assert words in planned.out
    labels = [line for line in planned.out.splitlines() if "metadata.labels" in line]
    assert labels
    assert all(line.endswith("added") for line in labels), "whose it is, and nothing else, is new"
    assert "spec." not in planned.out
    done = repository.sync()
    assert (done.code, "1 adopted" in done.out + done.err) == (0, True), done
    assert running() == before
    managers = {one["manager"] for one in _managed(eu, repository.namespace)}
    assert ("helm" in managers, "fleet" in managers) == (False, True)
    assert repository.fleet("preview", "--expect-no-changes").code == 0
    assert repository.sync("--expect-no-changes").code == 0
    assert running() == before

    repository.wants(f"fleet.Manifest({deployment('example.test/web:2')!r})", clusters=[eu.name])
    repository.commit()
    assert repository.sync().code == 0
    assert running()[0]["spec"]["template"]["spec"]["containers"][0]["image"] == "example.test/web:2"


def _managed(cluster: Any, namespace: str) -> list[Object]:
    text = cluster.kubectl("-n", namespace, "get", "deployment", "web", "-o", "yaml", "--show-managed-fields")
    found: list[Object] = yaml.safe_load(text)["metadata"]["managedFields"]
    return found
