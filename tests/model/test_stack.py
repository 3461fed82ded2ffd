"""Stacks: what a function declares for a cluster, called as a user's own test would call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fleet
from fleet import Options
from fleet.apps import Etcd
from fleet.errors import ConfigurationError, Source
from fleet.model.context import MissingOutputError, open_discovery
from fleet.model.source import relative_to
from tests.model.lines import line_of

EU = fleet.Cluster("eu-1", labels={"env": "prod", "tier": "gold"})
US = fleet.Cluster("us-1", labels={"env": "prod", "tier": "silver"})


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@fleet.stack(clusters=fleet.where(env="prod"), rollout=fleet.Rollout(waves=["eu-1"], soak="5m"))
def web_shop(cluster: fleet.Cluster) -> None:
    db = Etcd("db", version="3.5", members=5 if cluster.labels["tier"] == "gold" else 3)
    fleet.Manifest(config_map("settings", endpoint=db.endpoint), opts=Options(depends_on=[db]))
    fleet.export("endpoint", db.endpoint)


def test_a_stack_called_with_a_cluster_returns_what_it_declares() -> None:
    declared = web_shop(EU)
    assert declared.app("db", Etcd).members == 5
    assert web_shop(US).app("db", Etcd).members == 3
    assert [str(resource.key) for resource in declared.resources] == [
        "Etcd.fleet.dev web-shop/db",
        "ConfigMap web-shop/settings",
    ]
    assert declared.exports == {"endpoint": "db.web-shop.svc:2379"}


def test_asking_for_an_app_that_is_not_there_says_which_are() -> None:
    with pytest.raises(KeyError, match="there are: db"):
        web_shop(EU).app("bd")


def test_a_stack_has_the_functions_name_place_and_docs() -> None:
    assert (web_shop.name, web_shop.namespace) == ("web-shop", "web-shop")
    assert web_shop.clusters([EU, US]) == (EU, US)


def test_every_resource_knows_the_line_that_made_it() -> None:
    @fleet.stack(clusters="eu-1")
    def two(cluster: fleet.Cluster) -> None:
        for name in ("a", "b"):
            Etcd(name, version="3.5")  # loop

    with relative_to(Path(__file__).parent):
        assert {app.source for app in two(EU).apps} == {Source("test_stack.py", line_of(__file__, "loop"))}


def test_two_resources_with_one_name_are_an_error_that_names_both_lines() -> None:
    @fleet.stack(clusters="eu-1")
    def twice(cluster: fleet.Cluster) -> None:
        Etcd("db", version="3.5")  # first
        Etcd("db", version="3.4")  # second

    with pytest.raises(ConfigurationError, match=r"Etcd\.fleet\.dev twice/db is declared twice") as caught:
        twice(EU)
    assert caught.value.source is not None
    assert caught.value.source.line == line_of(__file__, "second")
    assert f":{line_of(__file__, 'first')}; give this one another name" in str(caught.value.hint)


def test_an_app_outside_a_stack_is_an_object_and_in_a_stack_file_an_error() -> None:
    assert Etcd("db", version="3.5").namespace == "default"
    with open_discovery(), pytest.raises(ConfigurationError, match="would never be deployed"):
        Etcd("db", version="3.5")


def test_stacks_and_clusters_of_a_file_are_discovered_in_order() -> None:
    with open_discovery() as found:
        fleet.Cluster("b")
        fleet.Cluster("a")

        @fleet.stack(clusters="a", name="renamed", namespace="elsewhere")
        def _one(cluster: fleet.Cluster) -> None: ...

    assert [cluster.name for cluster in found.clusters] == ["b", "a"]
    assert [(stack.name, stack.namespace) for stack in found.stacks] == [("renamed", "elsewhere")]


def test_an_export_of_another_stack_is_read_and_makes_an_edge() -> None:
    @fleet.stack(clusters="eu-1")
    def reader(cluster: fleet.Cluster) -> None:
        fleet.Manifest(config_map("c", url=fleet.output(web_shop, "endpoint")))
        assert fleet.output("web-shop", "port", int) == 5

    declared = reader(EU, outputs={"web-shop": {"endpoint": "here:1", "port": 5}})
    assert declared.manifests[0].object["data"] == {"url": "here:1"}
    assert [(asked.stack, asked.name) for asked in declared.asked] == [("web-shop", "endpoint"), ("web-shop", "port")]


def test_an_export_that_is_not_known_yet_says_which_stack_comes_first() -> None:
    @fleet.stack(clusters="eu-1")
    def reader(cluster: fleet.Cluster) -> None:
        fleet.output("web-shop", "endpiont")  # asked

    with pytest.raises(MissingOutputError) as caught:
        reader(EU)
    assert caught.value.asked.stack == "web-shop"
    with pytest.raises(MissingOutputError) as caught:
        reader(EU, outputs={"web-shop": {"endpoint": "x"}})
    assert caught.value.hint == "did you mean 'endpoint'?"
    assert caught.value.source is not None
    assert caught.value.source.line == line_of(__file__, "asked")


def test_an_export_of_another_type_is_an_error() -> None:
    @fleet.stack(clusters="eu-1")
    def reader(cluster: fleet.Cluster) -> None:
        fleet.output("web-shop", "port")

    with pytest.raises(ConfigurationError, match="is int, not str"):
        reader(EU, outputs={"web-shop": {"port": 5}})


def exports_twice() -> None:
    fleet.export("a", 1)
    fleet.export("a", 2)


def exports_an_object() -> None:
    fleet.export("a", object())


def exports_deep_nonsense() -> None:
    fleet.export("a", {"x": [1, {"y": {1, 2}}]})


def reads_itself() -> None:
    fleet.output("wrong", "a")


def calls_another() -> None:
    web_shop(EU)


def returns_something() -> object:
    return Etcd("db", version="3.5")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (exports_twice, "'a' is exported twice"),
        (exports_an_object, "object is not plain data"),
        (exports_deep_nonsense, r"x\[1\]\.y: set is not plain data"),
        (reads_itself, "reads an export of itself"),
        (calls_another, "stack 'wrong' calls stack 'web-shop'"),
        (returns_something, "returns Etcd, but what it returns is not deployed"),
    ],
)
def test_misuse_inside_a_stack_is_named(body: Callable[[], None], message: str) -> None:
    @fleet.stack(clusters="eu-1")
    def wrong(cluster: fleet.Cluster) -> None:
        return body()

    with pytest.raises(ConfigurationError, match=message):
        wrong(EU)


def test_export_and_output_need_a_stack() -> None:
    with pytest.raises(ConfigurationError, match="outside a stack"):
        fleet.export("a", 1)
    with pytest.raises(ConfigurationError, match="outside a stack"):
        fleet.output("a", "b")


def test_a_wrong_decorator_says_what_would_be_right() -> None:
    with pytest.raises(ConfigurationError, match="must be names of clusters") as caught:
        fleet.stack(clusters=[])
    assert caught.value.field == "clusters"
    with pytest.raises(ConfigurationError, match="'Bad Name' is not a name"):

        @fleet.stack(clusters="eu-1", name="Bad Name")
        def _bad(cluster: fleet.Cluster) -> None: ...


def test_a_function_that_cannot_be_a_stack_is_refused_where_it_is_decorated() -> None:
    decorate: Any = fleet.stack(clusters="eu-1")

    async def asynchronous(cluster: fleet.Cluster) -> None: ...

    with pytest.raises(ConfigurationError, match="no async, no yield"):
        decorate(asynchronous)
    with pytest.raises(ConfigurationError, match="takes one parameter, the cluster"):
        decorate(lambda: None)
    with pytest.raises(ConfigurationError, match="decorates a function"):
        decorate(Etcd)


def test_nothing_is_left_over_when_a_stack_fails() -> None:
    @fleet.stack(clusters="eu-1")
    def fails(cluster: fleet.Cluster) -> None:
        Etcd("db", version="3.5")
        raise RuntimeError("user code")

    with pytest.raises(RuntimeError, match="user code"):
        fails(EU)
    assert Etcd("db", version="3.5").namespace == "default"
    assert web_shop(EU).stack == "web-shop"


@pytest.mark.parametrize("name", ["fleet-operator", "fleet-serve", "fleet-agent"])
def test_a_stack_is_not_called_as_a_program_whose_lease_it_would_share(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is the name of a program") as refused:
        fleet.stack(clusters="eu-1", name=name)(lambda cluster: None)
    assert refused.value.field == "name"
