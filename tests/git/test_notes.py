"""The text of notes, from data."""

from __future__ import annotations

from fleet.git import status
from fleet.git.status import PublishOutcome
from fleet.git.status_records import StatusReport

EU = PublishOutcome("orders", "eu-1", "Synced", "Healthy")
US = PublishOutcome("orders", "us-1", "Failed", "Unknown", "no route")


def test_a_note_has_a_line_per_stack_and_cluster() -> None:
    note = status.merge_note("", [US, EU])
    assert note == "orders eu-1: Synced, Healthy\norders us-1: Failed, Unknown - no route\n"
    assert status.parse_note(note) == (EU, US)


def test_our_line_replaces_our_older_one_and_keeps_all_others() -> None:
    note = "Reviewed by hand\n" + status.merge_note("", [US, EU])
    again = status.merge_note(note, [PublishOutcome("orders", "us-1", "Synced", "Healthy")])
    assert again == "Reviewed by hand\norders eu-1: Synced, Healthy\norders us-1: Synced, Healthy\n"
    assert status.merge_note(again, [EU]) == again


def test_a_message_cannot_add_a_line() -> None:
    outcome = PublishOutcome.of(StatusReport("orders", "eu-1", "a" * 40, message="bad\nother us-1: Synced, Healthy"))
    assert status.merge_note("", [outcome]).count("\n") == 1


def test_the_place_of_a_note_is_where_git_put_it() -> None:
    commit = "ab" * 20
    assert status.note_path(commit, []) == commit
    assert status.note_path(commit, ["ab/" + "ab" * 19]) == "ab/" + "ab" * 19
    assert status.note_path(commit, [f"{n:040x}" for n in range(256)]) == "ab/" + "ab" * 19


def test_who_and_since_when_are_told_and_move_only_with_the_outcome() -> None:
    report = StatusReport("orders", "eu-1", "a" * 40, health="Healthy")
    first = status.merge_note("", [PublishOutcome.of(report, at="2026-01-01T00:00:00Z", by="ada [ops]\n@laptop")])
    assert first == "orders eu-1: Synced, Healthy [2026-01-01T00:00:00Z ada [ops @laptop]\n"
    again = PublishOutcome.of(report, at="2026-01-02T00:00:00Z", by="bob")
    assert status.merge_note(first, [again]) == first
    worse = PublishOutcome.of(
        StatusReport("orders", "eu-1", "a" * 40, health="Degraded", message="sick"), at="now", by="bob"
    )
    assert status.merge_note(first, [worse]) == "orders eu-1: Synced, Degraded [now bob] - sick\n"
    assert status.parse_note(status.merge_note(first, [worse])) == (worse,)
