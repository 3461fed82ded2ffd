"""What is there: certain or an error, in few requests."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import ResourceError
from fleet.kube.client.client import Client
from fleet.kube.discovery import read_discovery
from fleet.kube.live import FEW, Live, read_live
from fleet.objects.desired import Key
from fleet.testing import Cluster
from tests.kube.with_client import agent, config_map, connected, make


def key(cluster: Cluster, name: str, kind: str = "ConfigMap") -> Key:
    return Key("", kind, cluster.namespace, name)


def test_every_key_is_an_object_or_certainly_absent(cluster: Cluster) -> None:
    cluster.apply(config_map(cluster, "a", x="1"))
    keys = [key(cluster, "a"), key(cluster, "b"), Key("", "Namespace", "", cluster.namespace)]
    keys += [Key("nowhere.io", "Thing", "n", "a"), Key("", "ConfigMap", "no-such-namespace", "a")]
    live = connected(cluster, lambda client: read_live(client, keys))
    assert list(live) == keys
    assert (live[keys[0]] or {})["data"] == {"x": "1"}
    assert (live[keys[2]] or {})["kind"] == "Namespace"
    assert [live[keys[1]], live[keys[3]], live[keys[4]]] == [None, None, None]


def test_many_objects_of_a_kind_are_one_list_and_a_few_are_single_gets(cluster: Cluster) -> None:
    cluster.apply(*(config_map(cluster, f"m{n}") for n in range(20)))

    def requests(count: int) -> list[str]:
        mark = cluster.audit.mark()
        keys = [key(cluster, f"m{n}") for n in range(count)] + [key(cluster, "absent")]
        live = connected(cluster, lambda client: read_live(client, keys))
        assert sum(found is not None for found in live.values()) == count
        seen = cluster.audit.requests(since=mark, agent=agent(cluster))
        return [one.verb for one in seen if one.resource == "configmaps"]

    assert requests(20) == ["list"]
    assert requests(FEW - 1) == ["get"] * FEW


def test_listed_objects_look_like_those_that_were_got(cluster: Cluster) -> None:
    cluster.apply(*(config_map(cluster, f"m{n}", n=str(n)) for n in range(FEW + 2)))
    keys = [key(cluster, f"m{n}") for n in range(FEW + 2)]

    async def both(client: Client) -> tuple[Live, Live]:
        return await read_live(client, keys), await read_live(client, keys[:2])

    listed, got = connected(cluster, both)
    assert {one: listed[one] for one in keys[:2]} == got


def test_lists_of_several_pages_are_read_to_their_end(cluster: Cluster) -> None:
    names = [f"m{n:04}" for n in range(1100)]
    make(cluster, *(config_map(cluster, name) for name in names))
    mark = cluster.audit.mark()
    live = connected(cluster, lambda client: read_live(client, [key(cluster, name) for name in [*names, "zz"]]))
    assert sum(found is not None for found in live.values()) == 1100
    lists = [one for one in cluster.audit.requests(since=mark, agent=agent(cluster)) if one.verb == "list"]
    assert len(lists) == 3


def test_objects_scattered_over_many_namespaces_are_few_requests(cluster: Cluster) -> None:
    """Ours by their label in one list; a namespace that does not exist has nothing in it; the rest is asked for."""
    spaces = [f"{cluster.namespace}-{n:02}" for n in range(24)]
    labels = {"fleet.dev/stack": cluster.namespace}
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces[:23]]
    ours = [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "spec": {"limits": []},
            "metadata": {"name": "a", "namespace": space, "labels": labels},
        }
        for space in spaces[:21]
    ]
    theirs = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "spec": {"limits": []},
        "metadata": {"name": "a", "namespace": spaces[21]},
    }
    make(cluster, *namespaces)
    make(cluster, *ours, theirs)
    try:
        mark = cluster.audit.mark()
        keys = [Key("", "LimitRange", space, "a") for space in spaces]
        live = connected(cluster, lambda client: read_live(client, keys))
        assert [found is not None for found in live.values()] == [True] * 22 + [False] * 2
        seen = cluster.audit.requests(since=mark, agent=agent(cluster))
        assert sorted(one.verb for one in seen if one.resource == "limitranges") == ["get", "get", "list"]
    finally:
        cluster.kubectl("delete", "namespace", *spaces[:23], "--wait=false")


def test_only_our_own_fields_are_kept_and_the_names_of_other_managers(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "a", "--from-literal=x=1", "--field-manager=somebody")
    cluster.kubectl(
        "apply", "--server-side", "--field-manager=fleet", "-f", "-",
        input='{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "2"}}',
    )  # fmt: skip
    live = connected(cluster, lambda client: read_live(client, [key(cluster, "a")]))
    entries: list[dict[str, Any]] = (live[key(cluster, "a")] or {})["metadata"]["managedFields"]
    assert {one["manager"]: "fieldsV1" in one for one in entries} == {"somebody": False, "fleet": True}


def test_a_group_whose_server_does_not_answer_is_uncertain_and_not_absent(cluster: Cluster) -> None:
    """An added API server that is down: the group is known, its kinds are not."""
    group = f"{cluster.namespace[-6:]}.example.io"
    cluster.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "down", "namespace": cluster.namespace},
         "spec": {"ports": [{"port": 443}]}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1.{group}"},
         "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
                  "insecureSkipTLSVerify": True, "service": {"name": "down", "namespace": cluster.namespace}}},
    )  # fmt: skip
    try:
        with pytest.raises(ResourceError, match="not known whether"):
            for _ in range(100):  # until the group is listed at all
                connected(cluster, lambda client: read_live(client, [Key(group, "Thing", "n", "a")]))
    finally:
        cluster.kubectl("delete", "apiservice", f"v1.{group}")


def test_discovery_prefers_the_first_version_and_finds_the_one_asked_for() -> None:
    def version(name: str, *kinds: str, freshness: str = "Current") -> dict[str, Any]:
        resources = [
            {
                "resource": kind.lower() + "s",
                "responseKind": {"kind": kind},
                "scope": "Namespaced",
                "verbs": ["get", "list"],
            }
            for kind in kinds
        ]
        return {"version": name, "resources": resources, "freshness": freshness}

    groups = [
        {"metadata": {"name": "a.io"}, "versions": [version("v2", "One"), version("v1", "One", "Two")]},
        {"metadata": {"name": "b.io"}, "versions": [version("v1", freshness="Stale")]},
    ]
    found = read_discovery({"kind": "APIGroupDiscoveryList", "items": groups})
    assert found.resource(Key("a.io", "One", "n", "x")).version == "v2"
    assert found.resource(Key("a.io", "One", "n", "x"), "v1").collection("n") == "/apis/a.io/v1/namespaces/n/ones"
    assert found.resource(Key("a.io", "Two", "n", "x")).version == "v1"
    assert found.find("a.io", "Three") is None
    with pytest.raises(ResourceError, match=r"server of group b\.io does not answer"):
        found.find("b.io", "One")


def test_a_server_without_aggregated_discovery_is_refused() -> None:
    with pytest.raises(ResourceError, match="no aggregated discovery"):
        read_discovery({"kind": "APIVersions", "versions": ["v1"]})
