"""What no single file of stacks can know, from the answers of all: pure, on data."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import Source
from fleet.evaluate.checks import check_stacks
from fleet.evaluate.result import Problem, RolloutData, StackResult
from fleet.objects.desired import Desired, Object


def app(kind: str, name: str = "db", namespace: str = "data") -> Object:
    metadata = {"name": name, "namespace": namespace}
    manifest = {"apiVersion": "fleet.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": {}}
    return Object(manifest, Source(f"stacks/{kind}.py".lower(), 3), app=kind)


def problems(wanted: dict[str, Sequence[Object]], clusters: Sequence[str] = ("eu-1", "us-1")) -> list[Problem]:
    """Of stacks that each want some objects in all clusters."""
    done = {
        name: StackResult(
            name,
            Source(f"stacks/{name}.py", 1),
            tuple(clusters),
            RolloutData((tuple(clusters),), "0s", "15m"),
            tuple(Desired(name, cluster, tuple(objects)) for cluster in clusters),
        )
        for name, objects in wanted.items()
    }
    return list(check_stacks({}, done, {}))


def test_two_apps_of_different_kinds_and_stacks_cannot_have_one_name_in_a_namespace() -> None:
    (problem,) = problems({"cache": [app("Cache")], "orders": [app("Etcd")]})

    assert problem.message == (
        "Etcd.fleet.dev data/db has the name of Cache.fleet.dev data/db in cluster eu-1, which is of stack 'cache',"
        " and so would their Services and Secrets"
    )
    assert problem.source == Source("stacks/etcd.py", 3)


def test_one_object_has_one_stack_and_is_told_once() -> None:
    (problem,) = problems({"cache": [app("Etcd")], "orders": [app("Etcd")]})
    assert "is wanted by two stacks, 'cache' and 'orders'" in problem.message


def test_apps_of_one_name_in_different_namespaces_are_no_problem() -> None:
    assert problems({"cache": [app("Cache", namespace="cache")], "orders": [app("Etcd"), app("Etcd", "other")]}) == []
