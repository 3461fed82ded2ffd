"""Which records count for which commit, and what they allow: with histories and records as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleet.approval.judge import NEVER, AppliedState, ApprovalHistory, Permission
from fleet.approval.record import ApprovalRecord, ApprovedChange
from fleet.git.history import PastCommit
from fleet.objects.desired import Key
from fleet.plan.effect import Severity

PAIR = ("shop", "eu")
A, B = (Key("", "ConfigMap", "shop", name) for name in "ab")
V0, V1, V2, V3 = (letter * 64 for letter in "0123")


def history(*trees: str) -> list[PastCommit]:
    """A commit for each tree: c0, c1, …"""
    return [PastCommit(f"c{number}", tree, "") for number, tree in enumerate(trees)]


def edge(
    key: Key, before: str, after: str, severity: Severity = Severity.UPDATE, pair: tuple[str, str] = PAIR
) -> ApprovedChange:
    return ApprovedChange(*pair, key, before, after, severity)


def record(base: str, tree: str, *edges: ApprovedChange, version: str = "") -> ApprovalRecord:
    made = ApprovalRecord(tree, base, "head", edges, "")
    return replace(made, version=version) if version else made


def book(
    records: Sequence[ApprovalRecord], past: Sequence[PastCommit], wanted: Mapping[Key, str], *, end: int | None = None
) -> ApprovalHistory:
    return ApprovalHistory(
        records, past, len(past) - 1 if end is None else end, lambda pair: wanted if pair == PAIR else {}
    )


def ask(made: ApprovalHistory, wanted: str, has: str, key: Key = A, **more: Any) -> Permission:
    return made.permission(PAIR, key, wanted, AppliedState(has, **more))


def test_what_was_previewed_is_allowed_at_the_commit_with_its_tree() -> None:
    made = book([record("c0", "t1", edge(A, V0, V1))], history("t0", "t1"), {A: V1})
    assert ask(made, V1, V0) == Permission(Severity.UPDATE)


def test_what_nobody_recorded_is_not() -> None:
    made = book([], history("t0", "t1"), {A: V1})
    assert "nobody approved it" in ask(made, V1, V0).refusal


def test_another_result_of_the_same_tree_is_not_what_was_approved() -> None:
    made = book([record("c0", "t1", edge(A, V0, V1))], history("t0", "t1"), {A: V2})
    refusal = ask(made, V2, V0).refusal
    assert V1[:8] in refusal
    assert V2[:8] in refusal


def test_to_make_an_object_is_not_to_take_it_from_others() -> None:
    made = book([record("c0", "t1", edge(A, "", V1, Severity.CREATE))], history("t0", "t1", "t2"), {A: f"{V1}+adopt"})
    assert ask(made, f"{V1}+adopt", "", is_applied=False).refusal
    taken = record("c1", "t2", edge(A, V1, f"{V1}+adopt", Severity.CREATE))
    both = [record("c0", "t1", edge(A, "", V1, Severity.CREATE)), taken]
    now = book(both, history("t0", "t1", "t2"), {A: f"{V1}+adopt"})
    assert ask(now, f"{V1}+adopt", "", is_applied=False) == Permission(Severity.CREATE)
    other = f"{V1}+adopt-{'0' * 20}"
    assert ask(now, other, "", is_applied=False).refusal, "not from these either"


def test_what_is_taken_stays_so_however_it_came() -> None:
    made = book([record("c0", "t1", edge(A, "", V1))], history("t0", "t1", "t2"), {A: f"{V1}+adopt"})
    assert ask(made, f"{V1}+adopt", V1[:20]) == Permission(Severity.UPDATE)
    assert ask(made, V1, V1[:20]) == Permission(Severity.UPDATE)


def test_a_rebase_of_several_commits_leads_to_the_tree_in_the_end_only() -> None:
    records = [record("c0", "t3", edge(A, V0, V1), edge(B, V0, V1))]
    past = history("t0", "t1", "t2", "t3")
    assert not ask(book(records, past, {A: V1, B: V1}), V1, V0).refusal
    half = book(records, past, {A: V1, B: V0}, end=2)
    assert ask(half, V1, V0).refusal, "the first commits alone are not what was shown"


def test_a_neighbour_in_between_does_not_void_it() -> None:
    mine, other = record("c0", "t1", edge(A, V0, V1)), record("c0", "t2", edge(B, V0, V1))
    made = book([mine, other], history("t0", "t2", "both"), {A: V1, B: V1})
    assert ask(made, V1, V0) == Permission(Severity.UPDATE)
    assert ask(made, V1, V0, B) == Permission(Severity.UPDATE)


def test_a_part_of_what_was_previewed_is_not_approved_by_it() -> None:
    whole = record("c0", "t1", edge(A, V0, V1), edge(B, V0, V1))
    assert ask(book([whole], history("t0", "part"), {A: V1, B: V0}), V1, V0).refusal
    elsewhere = record("c0", "t1", edge(A, V0, V1), edge(A, V0, V1, pair=("other", "us")))
    assert ask(book([elsewhere], history("t0", "part"), {A: V1}), V1, V0).refusal, "in no stack and no cluster"


def test_a_preview_that_was_never_merged_approves_nothing_else() -> None:
    unmerged = record("c0", "evil", edge(A, V0, V3, Severity.DATA))
    made = book([unmerged], history("t0", "t1"), {A: V1})
    assert ask(made, V1, V0).refusal


def test_a_record_of_another_branch_does_not_count() -> None:
    made = book([record("elsewhere", "t1", edge(A, V0, V1))], history("t0", "t1"), {A: V1})
    assert ask(made, V1, V0).refusal


def test_several_merges_in_one_sync_are_each_approved_and_their_severities_add_up() -> None:
    records = [
        record("c0", "t1", edge(A, V0, V1, Severity.INTERRUPT)),
        record("c1", "t2", edge(A, V1, V2)),
        record("c2", "t3", edge(B, V0, V1)),
    ]
    made = book(records, history("t0", "t1", "t2", "t3"), {A: V2, B: V1})
    assert ask(made, V2, V0) == Permission(Severity.INTERRUPT), "the restart of the first is still to come"
    assert ask(made, V2, V1) == Permission(Severity.UPDATE), "here it is done"
    assert ask(made, V1, V0, B) == Permission(Severity.UPDATE)


def test_one_of_several_merges_without_a_record_is_refused() -> None:
    records = [record("c0", "t1", edge(A, V0, V1)), record("c2", "t3", edge(A, V2, V3))]
    made = book(records, history("t0", "t1", "pushed", "t3"), {A: V3, B: V1})
    assert not ask(made, V3, V0).refusal, "what was seen in the end is what comes out"
    assert ask(made, V1, V0, B).refusal
    assert [one.commit for one in made.unrecorded_commits(0)] == ["c2"]


def test_a_way_back_needs_a_record_of_its_own() -> None:
    records = [record("c0", "t1", edge(A, V0, V1)), record("c1", "t2", edge(A, V1, V2))]
    pushed_back = book(records, history("t0", "t1", "t2", "t1"), {A: V1})
    assert ask(pushed_back, V1, V2).refusal, "also as exactly the files that were approved once"
    reverted = book([*records, record("c2", "t1", edge(A, V2, V1))], history("t0", "t1", "t2", "t1"), {A: V1})
    assert not ask(reverted, V1, V2).refusal


def test_a_record_that_was_merged_beside_a_neighbour_and_taken_back_does_not_count_again() -> None:
    mine, other = record("c0", "t1", edge(A, V0, V1)), record("c0", "t2", edge(B, V0, V1))
    back = record("c2", "t3", edge(A, V1, V0))
    past = history("t0", "t2", "both", "t3", "pushed")
    assert ask(book([mine, other, back], past, {A: V1, B: V1}), V1, V0, since=3).refusal
    squashed = replace(back, tree="never seen")  # this one too was merged beside a neighbour
    again = book([mine, other, squashed], past, {A: V1, B: V1})
    assert ask(again, V1, V0, since=3).refusal


def test_two_changes_of_one_object_beside_neighbours_follow_each_other() -> None:
    records = [record("c0", "x", edge(A, V0, V1, Severity.INTERRUPT)), record("c2", "y", edge(A, V1, V2))]
    made = book(records, history("t0", "n1", "c", "n2", "d"), {A: V2})
    assert ask(made, V2, V0) == Permission(Severity.INTERRUPT)


def test_an_older_commit_than_the_cluster_has_needs_a_record_that_begins_there() -> None:
    records = [record("c0", "t1", edge(A, V0, V1)), record("c1", "t2", edge(A, V1, V2))]
    past = history("t0", "t1", "t2")
    assert "way back" in ask(book(records, past, {A: V1}, end=1), V1, V2, since=2).refusal
    approved = [*records, record("c0", "t1", edge(A, V2[:20], V1, Severity.INTERRUPT))]
    assert ask(book(approved, past, {A: V1}, end=1), V1, V2, since=2) == Permission(Severity.INTERRUPT)


def test_drift_is_repaired_and_nothing_more() -> None:
    merged = record("c0", "t1", edge(A, V0, V1, Severity.INTERRUPT))
    made = book([merged], history("t0", "t1"), {A: V1})
    assert ask(made, V1, V1[:20]) == Permission(Severity.UPDATE), "the restart was approved once, and has been"
    assert ask(made, V1, V1[:20], is_applied=False) == Permission(Severity.INTERRUPT), "begun, and not done"
    assert ask(book([], history("t0"), {A: V1}), V1, V1[:20]) == Permission(Severity.UPDATE), "from before all records"
    approved = record("c1", "t2", edge(A, V1, V1, Severity.INTERRUPT))
    again = book([merged, approved], history("t0", "t1", "t2"), {A: V1})
    assert ask(again, V1, V1[:20]) == Permission(Severity.INTERRUPT), "a repair that restarts, approved as such"


def test_an_equal_short_hash_is_not_enough_where_there_is_a_record() -> None:
    twin = V1[:20] + "f" * 44
    made = book([record("c0", "t1", edge(A, V0, V1))], history("t0", "t1", "pushed"), {A: twin})
    assert ask(made, twin, V1[:20]).refusal


def test_taking_protection_away_is_a_change() -> None:
    made = book([record("c0", "t1", edge(A, f"{V0}+protect", f"{V1}+protect"))], history("t0", "t1"), {A: V1})
    assert ask(made, V1, f"{V0[:20]}+protect").refusal


def test_another_release_has_to_be_approved_again() -> None:
    made = book([record("c0", "t1", edge(A, V0, V1), version="0.0.1")], history("t0", "t1"), {A: V1})
    assert "approved with fleet 0.0.1" in ask(made, V1, V0).refusal
    assert ask(made, V1, V1[:20]) == Permission(Severity.UPDATE), "what is there already may be repaired"


def test_a_removal_is_approved_as_one() -> None:
    made = book([record("c0", "t1", edge(A, V0, "", Severity.DELETE))], history("t0", "t1"), {})
    assert ask(made, "", V0) == Permission(Severity.DELETE)
    assert ask(book([], history("t0", "t1"), {}), "", V0).refusal


def test_the_first_record_of_all_may_begin_with_nothing() -> None:
    made = book([record("", "t0", edge(A, "", V0, Severity.CREATE))], history("t0"), {A: V0})
    assert ask(made, V0, "", is_applied=False, since=NEVER) == Permission(Severity.CREATE)
