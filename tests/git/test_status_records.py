"""The pure part of health in git: reports in, files out."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from fleet.errors import ConfigurationError
from fleet.git import status_records
from fleet.git.status_records import AppRecord, StatusRecord, StatusReport

NOON = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
FIRST, SECOND = "a" * 40, "b" * 40
ETCD = AppRecord("Etcd", "orders", "config", version="3.6.5", health="Healthy")
REPORT = StatusReport("orders", "eu-1", FIRST, sync="Synced", health="Healthy", apps=(ETCD,))


def after(*reports: StatusReport) -> StatusRecord:
    """The record after reports an hour apart."""
    record = None
    for number, report in enumerate(reports):
        record = status_records.follow(record, report, NOON + timedelta(hours=number))
    assert record
    return record


def test_a_record_says_what_was_reported_and_survives_being_written() -> None:
    record = after(REPORT)
    assert record.since == "2025-03-01T12:00:00Z"
    assert record.revision == record.wanted == FIRST
    assert record.apps == (replace(ETCD, since="2025-03-01T12:00:00Z"),)
    assert status_records.decode(status_records.encode(record), "clusters/eu-1/orders.json") == record


def test_the_file_has_the_documented_fields_in_the_documented_order() -> None:
    data = json.loads(status_records.encode(after(REPORT)))
    assert list(data) == [
        "schema",
        "stack",
        "cluster",
        "sync",
        "health",
        "since",
        "revision",
        "wanted",
        "message",
        "apps",
    ]
    assert list(data["apps"][0]) == [
        "kind",
        "namespace",
        "name",
        "version",
        "members",
        "available",
        "health",
        "since",
        "message",
    ]
    assert data["schema"] == "fleet.dev/status/v1"
    assert status_records.__doc__
    assert all(name in status_records.__doc__ for name in [*data, *data["apps"][0]])


def test_since_moves_only_when_health_or_sync_does() -> None:
    assert after(REPORT, replace(REPORT, revision=SECOND)).since == "2025-03-01T12:00:00Z"
    assert after(REPORT, replace(REPORT, message="other words")).since == "2025-03-01T12:00:00Z"
    assert after(REPORT, replace(REPORT, health="Degraded")).since == "2025-03-01T13:00:00Z"
    assert after(REPORT, replace(REPORT, sync="Failed")).since == "2025-03-01T13:00:00Z"
    assert after(REPORT, replace(REPORT, health="Degraded"), REPORT).since == "2025-03-01T14:00:00Z"


def test_every_app_has_a_since_of_its_own() -> None:
    sick = replace(REPORT, health="Degraded", apps=(ETCD, AppRecord("Redis", "orders", "cache", health="Degraded")))
    record = after(
        REPORT, sick, replace(sick, apps=(replace(ETCD, version="3.7.0"), replace(sick.apps[1], health="Healthy")))
    )
    assert [(app.name, app.since[11:13]) for app in record.apps] == [("config", "12"), ("cache", "14")]


def test_a_failed_sync_keeps_the_revision_that_is_applied_and_the_apps_that_were_seen() -> None:
    record = after(REPORT, StatusReport("orders", "eu-1", SECOND, sync="Unreachable", message="no route"))
    assert (record.revision, record.wanted) == (FIRST, SECOND)
    assert [(app.name, app.version, app.health) for app in record.apps] == [("config", "3.6.5", "Unknown")]


def test_a_first_sync_that_failed_has_no_applied_revision() -> None:
    assert after(replace(REPORT, sync="Failed")).revision == ""


def test_words_that_are_not_in_the_vocabulary_are_unknown_or_failed() -> None:
    record = after(replace(REPORT, health="Splendid", sync="Sort of"))
    assert (record.health, record.sync) == ("Unknown", "Failed")


def test_the_same_report_again_changes_no_file() -> None:
    files = written({}, REPORT)
    assert status_records.changed_files(files, [REPORT], [], LATER) == {}


def test_only_what_differs_is_written_and_only_what_is_ours_removed() -> None:
    other = replace(REPORT, cluster="us-1")
    files = written({"clusters/ap-1/theirs.json": b"{}"}, REPORT, other)
    changes = status_records.changed_files(
        files, [REPORT, replace(other, health="Degraded")], [("gone", "eu-1")], LATER
    )
    assert list(changes) == ["clusters/us-1/orders.json"]
    assert status_records.changed_files(files, [REPORT], [("orders", "us-1")], LATER) == {
        "clusters/us-1/orders.json": None
    }


def test_a_file_of_ours_that_is_damaged_is_written_anew() -> None:
    assert list(status_records.changed_files({"clusters/eu-1/orders.json": b"{"}, [REPORT], [], NOON)) == [
        "clusters/eu-1/orders.json"
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"nonsense",
        b'{"schema": "fleet.dev/status/v1"}',
        b'{"schema": "fleet.dev/status/v2"}',
        status_records.encode(after(REPORT)).replace(b"eu-1", b"us-1"),
        status_records.encode(after(REPORT)).replace(b'"Synced"', b'"Perhaps"'),
        status_records.encode(after(REPORT)).replace(b'"Synced"', b"17"),
        status_records.encode(after(REPORT)).replace(b"2025-03-01T12:00:00Z", b"yesterday"),
        status_records.encode(after(REPORT)).replace(b'"config"', b'"../x"'),
        b'"' + b"x" * status_records.FILE_BYTES + b'"',
    ],
)
def test_a_file_that_is_not_a_status_file_is_a_problem_and_not_a_crash(content: bytes) -> None:
    good = written({}, replace(REPORT, cluster="ap-1"))
    records, problems = status_records.decode_all({**good, "clusters/eu-1/orders.json": content, "notes.txt": b"hello"})
    assert [record.cluster for record in records] == ["ap-1"]
    assert len(problems) == 1


@pytest.mark.parametrize("name", ["", "a/b", "..", ".git", "a b", "a\n", "x" * 300])
def test_a_name_that_is_not_one_never_becomes_a_path(name: str) -> None:
    with pytest.raises(ConfigurationError):
        status_records.changed_files({}, [replace(REPORT, stack=name)], [], NOON)
    with pytest.raises(ConfigurationError):
        status_records.changed_files({}, [], [("orders", name)], NOON)


def test_messages_are_one_printable_line_of_limited_length_without_credentials() -> None:
    text = (
        "cannot pull https://me:hunter2@registry.example.com/x\n\x1b[31mred\x1b[0m\u202eevil\u200b\ttab " + "x" * 10_000
    )
    shown = after(replace(REPORT, message=text, apps=(replace(ETCD, message=text),)))
    for message in (shown.message, shown.apps[0].message):
        assert message.startswith("cannot pull https://registry.example.com/x [31mred [0m evil tab xxx")
        assert len(message) == status_records.MESSAGE_LETTERS
        assert message.isprintable()


def test_there_is_no_field_that_a_manifest_could_end_up_in() -> None:
    assert {field.type for kind in (AppRecord, StatusRecord, StatusReport) for field in fields(kind)} == {
        "str",
        "tuple[AppRecord, ...]",
    }


def written(files: dict[str, bytes], *reports: StatusReport) -> dict[str, bytes]:
    changes = status_records.changed_files(files, reports, [], NOON)
    return {**files, **{name: content for name, content in changes.items() if content is not None}}


def test_an_engine_s_members_and_quorum_are_kept_and_nonsense_is_not() -> None:
    app = replace(ETCD, members="2/3", available="yes")
    told = status_records.follow(None, replace(REPORT, apps=(app,)), NOON).apps[0]
    assert (told.members, told.available) == ("2/3", "yes")
    odd = replace(ETCD, members="<script>", available="perhaps")
    told = status_records.follow(None, replace(REPORT, apps=(odd,)), NOON).apps[0]
    assert (told.members, told.available) == ("", "")


def test_a_record_of_an_earlier_release_is_read() -> None:
    record = status_records.follow(None, REPORT, NOON)
    data = json.loads(status_records.encode(record))
    for app in data["apps"]:
        del app["members"], app["available"]
    assert status_records.decode(json.dumps(data).encode(), record.path).apps[0].members == ""
