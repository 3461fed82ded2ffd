"""The inventory: as text, in chunks, and where it is kept."""

from __future__ import annotations

import asyncio

import pytest

from fleet.apply import inventory
from fleet.apply import inventory as store
from fleet.apply.inventory import Chunk, StalePlanError, StoredInventory, load, load_all, save, verify
from fleet.errors import ResourceError
from fleet.kube.client.client import Client
from fleet.objects.desired import Key
from fleet.plan.inventory import Entry, Inventory
from fleet.testing import Cluster
from tests.kube.with_client import agent, connected

ODD = Key("rbac.authorization.k8s.io", "ClusterRole", "", "system:fleet|a,b%\t")


def entry(number: int, **fields: object) -> Entry:
    return Entry(Key("apps", "Deployment", "orders", f"d{number:05}"), "v1", f"uid-{number}", "0" * 16, **fields)  # type: ignore[arg-type]


def test_entries_survive_the_text() -> None:
    entries = [
        entry(1, retain=True, protect=True, after=(ODD, entry(2).key)),
        entry(2, protect=True, ignores=("spec.replicas", "spec.containers[name=web].image", "metadata.a,b")),
        Entry(ODD, "v1"),
    ]
    assert inventory.parse_entries(inventory.format_entries(map(inventory.format_entry, entries))) == entries
    assert inventory.parse_entries(inventory.format_entries([])) == []


def test_columns_of_a_later_version_are_left_out() -> None:
    header, line = inventory.format_entries([inventory.format_entry(entry(1))]).splitlines()
    assert inventory.parse_entries(f"{header}\tcolour\n{line}\tblue\n") == [entry(1)]


@pytest.mark.parametrize("text", ["", "name\tkind\n", inventory.format_entries(["apps\tv1\tDeployment"])])
def test_a_text_that_is_not_whole_is_an_error_and_not_a_shorter_inventory(text: str) -> None:
    with pytest.raises(ResourceError):
        inventory.parse_entries(text)


def test_entries_stay_in_their_chunk_and_new_ones_go_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(inventory.format_entry(entry(0))) + 2
    monkeypatch.setattr(store, "CHUNK_BYTES", size * 3)
    chunks = (
        Chunk(0, (entry(1), entry(5), entry(9)), "u", "1"),
        Chunk(1, (entry(2), entry(3)), "v", "1"),
    )
    arranged = store._arrange(chunks, tuple(map(entry, (1, 2, 3, 4, 6, 9))))
    assert [(chunk.number, [one.uid for one in entries]) for chunk, entries in arranged] == [
        (0, ["uid-1", "uid-4", "uid-9"]),
        (1, ["uid-2", "uid-3", "uid-6"]),
    ]
    grown = store._arrange(chunks, tuple(map(entry, range(10))))
    assert [chunk.number for chunk, _ in grown] == [0, 1, 2, 3]
    assert {one.key for _, entries in grown for one in entries} == {entry(n).key for n in range(10)}


def stored_as(cluster: Cluster, stored: StoredInventory, *entries: Entry, revision: str = "r1") -> StoredInventory:
    made = Inventory(cluster.namespace, "test", revision, tuple(sorted(entries, key=lambda one: one.key)))
    return connected(cluster, lambda client: save(client, stored, made))


def fresh(cluster: Cluster) -> StoredInventory:
    return connected(cluster, lambda client: load(client, cluster.namespace, "test"))


def test_what_is_saved_is_loaded_and_nothing_is_left_of_an_empty_one(cluster: Cluster) -> None:
    first = stored_as(cluster, fresh(cluster), entry(1, retain=True), entry(2))
    assert fresh(cluster) == first
    assert first.inventory in [one.inventory for one in connected(cluster, load_all)]
    second = stored_as(cluster, first, entry(2), entry(3), revision="r2")
    assert fresh(cluster) == second
    assert (second.inventory.revision, [one.uid for one in second.inventory.entries]) == ("r2", ["uid-2", "uid-3"])
    stored_as(cluster, second)
    assert fresh(cluster) == StoredInventory(Inventory(cluster.namespace, "test"))


def test_nothing_is_written_when_nothing_differs(cluster: Cluster) -> None:
    first = stored_as(cluster, fresh(cluster), entry(1))
    mark = cluster.audit.mark()
    assert stored_as(cluster, first, entry(1)) == first
    assert not cluster.audit.writes(since=mark, agent=agent(cluster))


def test_a_large_inventory_is_several_objects_of_which_only_the_changed_are_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES", 5_000)
    entries = [entry(n) for n in range(300)]
    first = stored_as(cluster, fresh(cluster), *entries)
    assert len(first.chunks) > 3
    assert fresh(cluster) == first
    mark = cluster.audit.mark()
    changed = stored_as(cluster, first, *entries[:-1], entries[-1]._replace(hash="1" * 16))
    assert len(cluster.audit.writes(since=mark, agent=agent(cluster))) == 1
    fewer = stored_as(cluster, changed, *entries[:10])
    assert len(fewer.chunks) == 1
    assert fresh(cluster).inventory == fewer.inventory
    stored_as(cluster, fewer)


def test_what_outgrows_its_object_is_in_a_later_one_before_it_leaves(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash in between would leave objects that nobody knows to be ours."""
    monkeypatch.setattr(store, "CHUNK_BYTES", 5_000)
    monkeypatch.setattr(store, "MOST_CHUNK_BYTES", 6_000)
    entries = [entry(n) for n in range(40)]
    first = stored_as(cluster, fresh(cluster), *entries)
    assert len(first.chunks) == 1
    mark = cluster.audit.mark()
    longer = [one._replace(after=tuple(two.key for two in entries[:3])) for one in entries]
    grown = stored_as(cluster, first, *longer)
    assert fresh(cluster) == grown
    assert {one.key for one in grown.inventory.entries} == {one.key for one in entries}
    written = [(one.verb, one.name) for one in cluster.audit.writes(since=mark, agent=agent(cluster))]
    assert [verb for verb, _ in written] == ["create"] * (len(grown.chunks) - 1) + ["update"]
    assert all(len(inventory.format_entries(map(inventory.format_entry, one.entries))) < 7_000 for one in grown.chunks)
    stored_as(cluster, grown)


def test_a_plan_from_an_older_inventory_is_refused(cluster: Cluster) -> None:
    nothing = fresh(cluster)
    first = stored_as(cluster, nothing, entry(1))
    with pytest.raises(StalePlanError):
        stored_as(cluster, nothing, entry(2))  # made at the same time by two
    second = stored_as(cluster, first, entry(1), entry(2))
    for old in (nothing, first):
        with pytest.raises(StalePlanError):
            connected(cluster, lambda client, old=old: verify(client, old))  # type: ignore[misc]
    with pytest.raises(StalePlanError):
        stored_as(cluster, first, entry(3))
    connected(cluster, lambda client: verify(client, second))
    assert fresh(cluster) == second


def test_a_damaged_inventory_is_an_error_and_not_an_empty_one(cluster: Cluster) -> None:
    stored_as(cluster, fresh(cluster), entry(1))
    name = f"{cluster.namespace}.inventory.0"
    cluster.kubectl("patch", "configmap", name, "-n", "fleet-system", "-p", '{"data": {"entries": null}}')
    with pytest.raises(ResourceError, match="labelled as an inventory and is none"):
        fresh(cluster)
    cluster.kubectl("delete", "configmap", name, "-n", "fleet-system")


def test_saving_at_the_same_time_lets_exactly_one_win(cluster: Cluster) -> None:
    nothing = fresh(cluster)
    mine = [Inventory(cluster.namespace, "test", str(n), (entry(n),)) for n in range(6)]

    async def race(client: Client) -> list[StoredInventory | BaseException]:
        return await asyncio.gather(*(save(client, nothing, one) for one in mine), return_exceptions=True)

    results = connected(cluster, race)
    won = [one for one in results if isinstance(one, StoredInventory)]
    assert len(won) == 1 and fresh(cluster) == won[0]
    assert all(isinstance(one, StoredInventory | StalePlanError) for one in results)
