"""Whatever fleet wrote before, it writes again to the byte, and reads."""

from __future__ import annotations

import json

import pytest

from fleet.apply import inventory
from fleet.approval import record as approval
from fleet.apps.etcd import layout
from fleet.bundle import storage
from fleet.git import status_records
from fleet.kit import members
from tests.stored.files import APPROVAL, DIRECTORY, LAYOUT, PODS, files

KEPT = {file.name: file.read_bytes() for file in DIRECTORY.iterdir()}


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return files()


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_is_rendered_or_stored_is_as_it_was(made: dict[str, bytes], name: str) -> None:
    assert made[name].decode() == KEPT[name].decode(), "on purpose? python -m tests.stored.files"


def test_there_is_a_file_for_each(made: dict[str, bytes]) -> None:
    assert set(made) == set(KEPT)


def test_an_inventory_of_before_is_read_whole() -> None:
    entries = inventory.parse_entries(KEPT["inventory.txt"].decode())
    assert inventory.format_entries(map(inventory.format_entry, entries)).encode() == KEPT["inventory.txt"]
    assert (entries[-1].retain, entries[-1].protect, entries[-1].seen) == (True, True, "77")
    assert entries[-1].after == (entries[0].key,)


def test_an_inventory_from_before_its_last_columns_is_read() -> None:
    lines = KEPT["inventory.txt"].decode().splitlines()
    older = "".join("\t".join(line.split("\t")[: len(inventory.COLUMNS)]) + "\n" for line in lines)
    entries = inventory.parse_entries(older)
    assert [entry.key for entry in entries] == [
        entry.key for entry in inventory.parse_entries(KEPT["inventory.txt"].decode())
    ]
    assert {entry.seen for entry in entries} == {""}


def test_a_record_of_the_status_branch_is_read() -> None:
    path = status_records.record_path("eu", "coordination")
    record = status_records.decode(KEPT["status.json"], path)
    assert status_records.encode(record) == KEPT["status.json"]
    assert (record.health, record.apps[0].members) == ("Degraded", "2/3")


def test_an_approval_is_read_under_the_name_that_it_has() -> None:
    name = f"trees/{'1' * 40}/7dade58855f86ba6f4ef.json"
    assert approval.decode(KEPT["approval.json"], name) == APPROVAL


def test_what_an_operator_wrote_is_read() -> None:
    assert members.read(KEPT["members.json"].decode()) == members.founders(PODS)
    assert layout.read(json.loads(KEPT["layout.json"])) == LAYOUT


def test_a_bundle_is_read_whole() -> None:
    index = storage.read_index(KEPT["bundle-fleet.json"], "a branch", "eu-1")
    for part in index.stacks:
        name = f"stacks-{part.stack}.json"
        stack = storage.read_stack(KEPT[f"bundle-{name}"], name, part.stack)
        assert stack.objects
