"""The short way: an object is not compared while its version and the file's hash are those of the last apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from fleet.errors import Source
from fleet.objects.desired import Desired, Object
from fleet.plan import Inventory, Plan, Verb, plan
from fleet.plan.inventory import Entry
from tests.objects.live import entry_of, live_of

MANIFEST = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "n"},
    "data": {"a": "1", "b": "2"},
}
KNOWN = entry_of(MANIFEST)._replace(seen="7")
OBJECT = Object(MANIFEST, Source("stacks/a.py", 1))


def there(version: str = "7", **metadata: Any) -> dict[str, Any]:
    live = live_of(MANIFEST)
    live["metadata"] |= {"resourceVersion": version, **metadata}
    return live


def planned(live: dict[str, Any], wanted: Object = OBJECT, known: Entry = KNOWN) -> Plan:
    inventory = Inventory("s", "c", entries=(known,))
    return plan(Desired("s", "c", (wanted,)), inventory, {wanted.key: live})


def verb(live: dict[str, Any], wanted: Object = OBJECT, known: Entry = KNOWN) -> Verb:
    (step,) = planned(live, wanted, known).steps
    return step.verb


def test_an_object_with_the_recorded_version_is_not_looked_into() -> None:
    live = there()
    live["data"] = {"a": "another value could not be there with this version"}
    assert verb(live) is Verb.UNCHANGED
    assert planned(live).empty


def test_a_drift_has_another_version_and_is_found() -> None:
    live = there("8")
    live["data"]["a"] = "drift"
    assert verb(live) is Verb.UPDATE


def test_a_field_that_somebody_took_out_is_found() -> None:
    live = there("8")
    del live["data"]["b"]
    assert verb(live) is Verb.UPDATE


def test_what_others_added_is_left_and_writes_nothing() -> None:
    live = there("8", annotations={"theirs": "1"})
    live["data"]["c"] = "theirs"
    assert verb(live) is Verb.UNCHANGED
    assert planned(live).empty, "that the version moved is no reason to write the inventory"
    assert planned(live).steps[0].entry == KNOWN
    entry = planned(live).steps[0].entry
    assert entry is not None and entry.seen == "7"


def test_a_changed_file_is_applied_though_the_object_was_not_touched() -> None:
    assert verb(there()) is Verb.UNCHANGED, "which finds out the hash of this one, once for all looks"
    changed = {**MANIFEST, "data": {"a": "2", "b": "2"}}
    assert verb(there(), replace(OBJECT, manifest=changed)) is Verb.UPDATE


def test_a_hash_that_is_given_is_taken_for_the_manifests() -> None:
    assert verb(there(), replace(OBJECT, hash=KNOWN.hash)) is Verb.UNCHANGED
    changed = {**MANIFEST, "data": {"a": "2", "b": "2"}}
    assert verb(there(), replace(OBJECT, manifest=changed, hash="another")) is Verb.UPDATE


def test_the_text_of_an_unchanged_manifest_is_not_decoded() -> None:
    unreadable = Object.from_json(b"no JSON", OBJECT.key, "v1", OBJECT.source, digest=KNOWN.hash, options={})
    assert verb(there(), unreadable) is Verb.UNCHANGED
    text = orjson.dumps(MANIFEST)
    known = Object.from_json(text, OBJECT.key, "v1", OBJECT.source, digest="another", options={"protect": True})
    assert verb(there("8"), known) is Verb.RECORD, "a look into the object takes the manifest"
    assert known == replace(OBJECT, protect=True)
    assert (replace(known, protect=False), orjson.loads(orjson.dumps(known))["manifest"]) == (OBJECT, MANIFEST)


@pytest.mark.parametrize("options", [{"protect": True}, {"retain_on_delete": True}])
def test_changed_options_are_recorded(options: dict[str, Any]) -> None:
    assert verb(there(), replace(OBJECT, **options)) is Verb.RECORD


def test_an_object_that_is_going_or_was_made_anew_is_no_untouched_one() -> None:
    assert verb(there(deletionTimestamp="now")) is Verb.CONFLICT
    assert verb(there(uid="another")) is not Verb.UNCHANGED


def test_an_inventory_from_before_versions_were_recorded_compares() -> None:
    live = there()
    live["data"]["a"] = "drift"
    assert verb(live, known=KNOWN._replace(seen="")) is Verb.UPDATE


def test_entries_that_differ_in_the_version_seen_are_equal() -> None:
    other = KNOWN._replace(seen="9")
    assert (other == KNOWN, other != KNOWN, hash(KNOWN) == hash(other)) == (True, False, True)
    assert KNOWN._replace(hash="other") != KNOWN
