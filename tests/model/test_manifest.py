"""Other objects: dicts and YAML files."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import fleet
from fleet.errors import ConfigurationError
from fleet.model.source import relative_to

EU = fleet.Cluster("eu-1")


def declared(*objects: dict[str, Any]) -> list[dict[str, Any]]:
    @fleet.stack(clusters="eu-1", name="shop")
    def stack(cluster: fleet.Cluster) -> None:
        for one in objects:
            fleet.Manifest(one)

    return [dict(manifest.object) for manifest in stack(EU).manifests]


def named(kind: str, version: str = "v1", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **metadata}}


def test_an_object_goes_to_the_stacks_namespace_unless_it_says_another() -> None:
    own, other = declared(named("ConfigMap"), named("ConfigMap", namespace="elsewhere"))
    assert (own["metadata"]["namespace"], other["metadata"]["namespace"]) == ("shop", "elsewhere")


def test_kinds_of_the_cluster_have_no_namespace() -> None:
    (role,) = declared(named("ClusterRole", "rbac.authorization.k8s.io/v1", namespace="nonsense"))
    assert "namespace" not in role["metadata"]


def test_a_custom_kind_of_the_cluster_is_said_to_be_one() -> None:
    made = fleet.Manifest(named("Gizmo", "example.com/v1"), cluster_scoped=True)
    assert made.key.namespace == ""


def test_what_only_the_server_may_say_is_left_out() -> None:
    (made,) = declared(named("ConfigMap", uid="1", resourceVersion="2", managedFields=[]) | {"status": {"a": 1}})
    assert made == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "shop"}}


def test_changing_the_dict_later_changes_nothing() -> None:
    given = named("ConfigMap")
    made = fleet.Manifest(given)
    given["metadata"]["name"] = "y"
    assert made.key.name == "x"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "has no metadata.name"),
        ({"apiVersion": "v1", "kind": "Job", "metadata": {"generateName": "x-"}}, "makes a new object at every sync"),
        (named("ConfigMap", labels={"a": 1}), "metadata.labels: must hold strings only"),
        ({**named("ConfigMap"), "data": {"a": None, "b": 8080}}, "data.b: must be a string, not a number"),
        ({**named("ConfigMap"), "data": "a=b"}, "data: must be a map of strings, not a string"),
        ({**named("Deploymnt"), "apiVersion": "apps/v1"}, "apps/v1 has no kind 'Deploymnt'"),
        (named("Config\nMap"), "object.kind: .* is none that there can be"),
        (named("ConfigMap", "v1\t"), "object.apiVersion: 'v1"),
        (named("ConfigMap", namespace="A B"), "object.metadata.namespace: 'A B' is not a name"),
        (named("ConfigMap", annotations="a=b"), "metadata.annotations: must hold strings only, not a string"),
        (named("Secret") | {"stringData": "pw"}, "object.stringData: must be a map, not a string"),
        (named("Secret") | {"data": ["pw"]}, "object.data: must be a map"),
        (
            named("Deployment", "apps/v1") | {"spec": {"strategy": "Recreate"}},
            'object.spec.strategy: must be a map, not a string\n  hint: such as {"type": "Recreate"}',
        ),
        (named("StatefulSet", "apps/v1") | {"spec": 3}, "object.spec: must be a map, not a number"),
        (
            named("CustomResourceDefinition", "apiextensions.k8s.io/v1") | {"spec": {"group": "a.b", "names": {}}},
            "object.spec.names.kind: is missing, and must be a string",
        ),
        (
            named("CustomResourceDefinition", "apiextensions.k8s.io/v1")
            | {"spec": {"group": "a.b", "names": {"kind": "B"}, "versions": ["v1"]}},
            "object.spec.versions: must be a list of maps",
        ),
        (named("Etcd", "fleet.dev/v1alpha1") | {"spec": []}, "object.spec: must be a map"),
        (named("ConfigMap") | {"data": {"a": {1, 2}}}, "data.a: set is not plain data"),
        (named("ConfigMap") | {"data": {1: "a"}}, "data: key 1 is int, not a string"),
        (named("ConfigMap") | {"data": float("nan")}, "data: nan is not a number that JSON has"),
        (named("List") | {"items": []}, "is a list of objects"),
    ],
)
def test_what_is_no_object_is_refused(given: dict[Any, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        fleet.Manifest(given)


def from_files(directory: Path, pattern: str) -> list[fleet.Manifest]:
    """What a stack in `directory` gets: the caller's file decides where files are looked for."""
    code = compile("made = fleet.manifests(pattern)", str(directory / "stack.py"), "exec")
    scope: dict[str, Any] = {"fleet": fleet, "pattern": pattern}
    with relative_to(directory):
        exec(code, scope)
    made: list[fleet.Manifest] = scope["made"]
    return made


def test_yaml_files_beside_the_stack_are_read_in_order_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
    (tmp_path / "a.yaml").write_text(
        dedent("""\
        # two in one file
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a}
        data: {day: 2024-01-01}
        ---
        ---
        apiVersion: v1
        kind: ConfigMapList
        items:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
        """)
    )
    made = from_files(tmp_path, "*.yaml")
    assert [(one.key.name, str(one.source)) for one in made] == [
        ("a", "a.yaml:2"),
        ("b", "a.yaml:8"),
        ("c", "b.yaml:1"),
    ]
    assert made[0].object["data"] == {"day": "2024-01-01"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\nb: }\n", "x.yaml:2: is not YAML"),
        ("a:\n\tb: 1\n", "x.yaml:2: is not YAML: a tab stands where YAML takes spaces only"),
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3: is not YAML: key 'a' is there twice"),
        ("kind: ConfigMap\n", "x.yaml:1: has no apiVersion"),
        ("- 1\n", "x.yaml:1: must be a dict, not list"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.yaml").write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        from_files(tmp_path, "x.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("*.yml", "no file matches '*.yml'"),
        ("gone.yaml", "there is no file 'gone.yaml'"),
        ("/etc/*.yaml", "is not a path beside this file"),
        ("../outside.yaml", "leads out of the repository"),
        ("link.yaml", "leads out of the repository"),
    ],
)
def test_files_that_are_not_there_or_not_in_the_repository(tmp_path: Path, pattern: str, message: str) -> None:
    (tmp_path / "outside.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    inside = tmp_path / "repository"
    inside.mkdir()
    (inside / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(ConfigurationError) as caught:
        from_files(inside, pattern)
    assert message in str(caught.value)
