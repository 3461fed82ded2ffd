"""The cache, with data: what the server says, what we wrote, and which of the two is newer."""

from __future__ import annotations

from typing import Any

from fleet.kube.runtime.cache import Cache, Change, Name
from fleet.kube.runtime.handlers import label, owner
from tests.kube.runtime.greeter import CONFIG_MAPS, GREETINGS

Object = dict[str, Any]


def thing(name: str, version: int, *, namespace: str = "ns", text: str = "", **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata, "data": {"text": text}}


def listed(cache: Cache, version: int, *things: Object) -> None:
    cache.begin()
    for one in things:
        cache.put(one)
    cache.finish(str(version))


def names(cache: Cache) -> list[str]:
    return sorted(name.name for name in cache.names())


def test_a_list_brings_objects_and_a_second_one_removes_what_is_gone() -> None:
    cache = Cache(CONFIG_MAPS)
    seen: list[Change] = []
    assert not cache.synced
    listed(cache, 5, thing("a", 1), thing("b", 2))
    cache.listeners.append(seen.append)
    assert cache.synced and names(cache) == ["a", "b"]
    listed(cache, 9, thing("b", 2), thing("c", 8))
    assert names(cache) == ["b", "c"]
    gone = [change.before["metadata"]["name"] for change in seen if change.before and not change.after]
    assert gone == ["a"]
    assert len(seen) == 2, "what a list repeats is no change"


def test_until_a_list_is_complete_nothing_is_taken_away() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5, thing("a", 1), thing("b", 2))
    cache.begin()
    cache.put(thing("a", 1))
    assert names(cache) == ["a", "b"]
    cache.begin()  # that list broke off; another begins
    cache.put(thing("b", 2))
    cache.finish("7")
    assert names(cache) == ["b"]


def test_own_writes_are_seen_at_once_and_their_echo_is_no_change() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5, thing("a", 3, text="old"))
    seen: list[Change] = []
    cache.listeners.append(seen.append)
    cache.learn(thing("a", 6, text="new"))
    found = cache.get("ns", "a")
    assert found is not None and found["data"]["text"] == "new"
    cache.put(thing("a", 6, text="new"))
    assert len(seen) == 1
    cache.put(thing("a", 7, text="another's"))
    assert len(seen) == 2


def test_a_change_of_another_right_before_our_write_is_told_though_our_answer_came_first() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5, thing("a", 3, text="old"))
    seen: list[Change] = []
    cache.listeners.append(seen.append)
    cache.learn(thing("a", 8, text="ours, and theirs"))
    cache.learn(thing("a", 9, text="ours again, and theirs"))
    cache.put(thing("a", 7, text="theirs"))
    cache.put(thing("a", 8, text="ours, and theirs"))
    cache.put(thing("a", 9, text="ours again, and theirs"))
    cache.put(thing("a", 11, text="theirs again"))
    assert [change.version for change in seen] == [8, 9, 7, 11]
    theirs = seen[2]
    assert theirs.before and theirs.before["data"]["text"] == "old"
    assert theirs.after and theirs.after["data"]["text"] == "theirs"
    found = cache.get("ns", "a")
    assert found is not None and found["data"]["text"] == "theirs again"


def test_an_answer_that_may_be_the_work_of_others_is_known_at_once_and_told_when_the_watch_does() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5, thing("a", 3, text="old"))
    seen: list[Change] = []
    cache.listeners.append(seen.append)
    cache.learn(thing("a", 8, text="new"), ours=False)
    found = cache.get("ns", "a")
    assert found is not None and found["data"]["text"] == "new" and seen == []
    cache.put(thing("a", 8, text="new"))
    assert [change.version for change in seen] == [8] and seen[0].before and seen[0].before["data"]["text"] == "old"


def test_a_list_that_comes_before_the_echo_of_our_write_may_hide_a_change_so_it_is_told() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5, thing("a", 3), thing("b", 4))
    seen: list[Change] = []
    cache.listeners.append(seen.append)
    cache.learn(thing("a", 8))
    cache.learn(thing("b", 9))
    listed(cache, 8, thing("a", 8), thing("b", 4))
    assert [(change.object["metadata"]["name"], change.version) for change in seen] == [("a", 8), ("b", 9), ("a", 0)]
    cache.put(thing("b", 9))
    cache.put(thing("a", 8))
    assert len(seen) == 3


def test_an_older_state_never_replaces_a_newer_one() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5)
    cache.learn(thing("a", 9, text="new"))
    cache.put(thing("a", 7, text="old"))
    cache.remove(thing("a", 8))  # deleted and made again by us: the watch is not there yet
    found = cache.get("ns", "a")
    assert found is not None and found["data"]["text"] == "new"
    cache.remove(thing("a", 10))
    assert names(cache) == []


def test_a_write_that_the_watch_has_passed_already_does_not_bring_the_dead_back() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5)
    cache.put(thing("a", 6))
    cache.remove(thing("a", 7))
    cache.learn(thing("a", 6))  # the answer to our own write, read late
    assert names(cache) == []
    cache.advance("20")
    cache.learn(thing("b", 15))
    assert names(cache) == []


def test_what_we_made_after_the_moment_of_a_list_survives_it() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5, thing("a", 1))
    cache.begin()
    cache.learn(thing("b", 8))
    cache.put(thing("a", 1))
    cache.finish("6")
    assert names(cache) == ["a", "b"]
    listed(cache, 10, thing("a", 1))
    assert names(cache) == ["a"]


def test_own_writes_outside_its_labels_or_namespace_do_not_belong_to_it() -> None:
    cache = Cache(CONFIG_MAPS, namespace="ns", labels={"app": "x"})
    listed(cache, 5)
    cache.learn(thing("a", 6))
    cache.learn(thing("b", 7, namespace="other", app="x"))
    cache.learn(thing("c", 8, app="x"))
    assert names(cache) == ["c"]


def test_only_the_own_manager_s_fields_are_kept() -> None:
    cache = Cache(CONFIG_MAPS, manager="us")
    found = thing("a", 1)
    found["metadata"]["managedFields"] = [
        {"manager": "kubectl", "fieldsV1": {"f:data": {}}},
        {"manager": "us", "operation": "Apply", "fieldsV1": {"f:data": {"f:text": {}}}},
    ]
    other = thing("b", 2)
    other["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {}}]
    listed(cache, 5, found, other)
    kept = cache.get("ns", "a")
    assert kept is not None and [entry["manager"] for entry in kept["metadata"]["managedFields"]] == ["us"]
    assert kept["apiVersion"] == "v1" and kept["kind"] == "ConfigMap"
    bare = cache.get("ns", "b")
    assert bare is not None and "managedFields" not in bare["metadata"]


def test_indexes_follow_every_change() -> None:
    cache = Cache(CONFIG_MAPS)
    listed(cache, 5, thing("a", 1, team="red"), thing("b", 2, team="blue"))
    cache.index("team", lambda found: [found["metadata"]["labels"]["team"]])
    assert [one["metadata"]["name"] for one in cache.by("team", "red")] == ["a"]
    cache.put(thing("b", 6, team="red"))
    assert [one["metadata"]["name"] for one in cache.by("team", "red")] == ["a", "b"]
    assert cache.by("team", "blue") == []
    cache.remove(thing("a", 7))
    assert [one["metadata"]["name"] for one in cache.by("team", "red")] == ["b"]
    listed(cache, 9)
    assert cache.by("team", "red") == []


def test_a_child_is_mapped_to_the_owner_that_controls_it() -> None:
    child = thing("x", 1)
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "controller": True},
        {"apiVersion": "runtime.fleet.dev/v1alpha1", "kind": "Greeting", "name": "mere"},
        {"apiVersion": "runtime.fleet.dev/v1beta7", "kind": "Greeting", "name": "g", "controller": True},
    ]
    assert list(owner(GREETINGS)(child)) == [Name("ns", "g")]
    assert list(owner(GREETINGS)(thing("y", 1))) == []


def test_a_child_without_an_owner_is_mapped_by_a_label() -> None:
    assert list(label("app")(thing("x", 1, app="g"))) == [Name("ns", "g")]
    assert list(label("app")(thing("x", 1))) == []
