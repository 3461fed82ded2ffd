"""When a change may begin in a cluster: decisions with data."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fleet.errors import Source
from fleet.evaluate.result import RolloutData, StackResult
from fleet.objects.desired import Desired
from fleet.sync.rollout.approvals import changes_digest
from fleet.sync.rollout.gates import CommitRollout, GateDecision, RolloutState, decide_gate, keep_since
from fleet.times import parse_window

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC).timestamp()  # a Monday
WAVES = RolloutData((("eu",), ("us-1", "us-2"), ("ap",)), "5m", "15m", 1)
NEW = RolloutState(seen=True, applied=True, health="Healthy", since=NOW - 600)  # has this revision
OLD = RolloutState(seen=True, health="Healthy")  # has the one before
ALL_OLD = {"eu": OLD, "us-1": OLD, "us-2": OLD, "ap": OLD}


def asked(
    cluster: str, standings: dict[str, RolloutState], rollout: RolloutData = WAVES, **more: object
) -> GateDecision:
    return decide_gate("orders", cluster, rollout, standings, {}, now=NOW, **more)  # type: ignore[arg-type]


def test_the_first_wave_begins_and_the_others_wait_for_it() -> None:
    assert asked("eu", ALL_OLD).goes
    waits = asked("us-1", ALL_OLD)
    assert waits.reason == "wave 1 is not done: eu does not have this revision yet, and is Healthy"
    assert asked("ap", {**ALL_OLD, "eu": NEW}).reason.startswith("wave 2 is not done: us-1")
    assert asked("ap", {**ALL_OLD, "eu": NEW, "us-1": NEW, "us-2": NEW}).goes


@pytest.mark.parametrize(
    "standing",
    [
        RolloutState(),  # not looked at since this revision came
        replace(NEW, seen=False),  # healthy, but of a look at another revision
        OLD,  # healthy at the revision before
        replace(NEW, begun=True),
        replace(NEW, problem="it does not answer"),
        replace(NEW, applied=False, partly=True),
        replace(NEW, health="Progressing"),
        replace(NEW, health="Degraded"),
        replace(NEW, health="Unknown"),  # nobody reports on it
    ],
)
def test_nothing_but_healthy_at_this_revision_lets_the_next_wave_begin(standing: RolloutState) -> None:
    assert not asked("us-1", {**ALL_OLD, "eu": standing}).goes


def test_a_wave_soaks_and_says_for_how_long() -> None:
    verdict = asked("us-1", {**ALL_OLD, "eu": replace(NEW, since=NOW - 60)})
    assert verdict == GateDecision("wave 1 soaks: eu has to stay healthy for 5m", 240)
    assert asked("us-1", {**ALL_OLD, "eu": replace(NEW, since=None)}).again == 300, "not known since when: from now"
    assert asked("us-1", {**ALL_OLD, "eu": replace(NEW, since=NOW - 300)}).goes


def test_the_first_unhealthy_cluster_stops_all_that_did_not_begin() -> None:
    many = replace(WAVES, waves=(("a", "b", "c", "d"),), max_unavailable=3)
    standings = {"a": replace(NEW, health="Degraded"), "b": OLD, "c": OLD, "d": NEW}
    assert asked("b", standings, many).reason == "the rollout is stopped: a has this revision and is Degraded"
    partly = replace(NEW, applied=False, partly=True, health="Degraded")
    told = "the rollout is stopped: a has a part of this revision and is Degraded"
    assert asked("b", {**standings, "a": partly}, many).reason == told
    to_be_made = replace(partly, health="Missing")  # what depends on an app that is not healthy yet
    assert "stopped" not in asked("b", {**standings, "a": to_be_made}, many).reason
    assert "stopped" in asked("b", {**standings, "a": replace(NEW, health="Missing")}, many).reason
    late = replace(NEW, health="Progressing", since=NOW - 16 * 60)
    assert asked("b", {**standings, "a": late}, many).reason.endswith("is Progressing after 15m")
    assert asked("b", {**standings, "a": replace(late, since=NOW - 60)}, many).goes
    assert asked("a", standings, many).goes, "the cluster itself may be put right"
    ill_before = {**standings, "a": replace(OLD, health="Degraded")}
    assert asked("b", ill_before, many).goes, "it was not this revision that made it so"


def test_no_more_clusters_of_a_wave_at_once_than_allowed() -> None:
    done = {**ALL_OLD, "eu": NEW}
    assert asked("us-1", done).goes
    assert asked("us-1", {**done, "us-2": replace(OLD, begun=True)}).reason == (
        "us-2 is being changed, and at most 1 may be unavailable at once"
    )
    for other in (replace(NEW, health="Progressing"), replace(OLD, problem="no answer"), RolloutState()):
        assert not asked("us-1", {**done, "us-2": other}).goes
    assert asked("us-1", {**done, "us-2": replace(OLD, health="Missing")}).goes, "nothing is there yet"
    two = replace(WAVES, max_unavailable=2)
    assert asked("us-1", {**done, "us-2": replace(OLD, begun=True)}, two).goes
    ill = replace(OLD, health="Degraded")
    assert asked("us-1", {**done, "us-1": ill, "us-2": ill}).goes, "two that are ill do not wait for each other"
    assert not asked("us-1", {**done, "us-1": ill, "us-2": replace(ill, begun=True)}).goes


def test_without_a_rollout_all_clusters_go_together() -> None:
    plain = RolloutData((("eu", "us-1"),), "0s", "15m")
    assert asked("eu", {"eu": OLD, "us-1": replace(NEW, health="Degraded")}, plain).goes
    assert asked("us-1", {"eu": replace(OLD, begun=True), "us-1": OLD}, plain).goes


def test_a_wave_waits_for_a_person_who_approves_this_wave() -> None:
    manual = replace(WAVES, approve=(2,))
    done = {**ALL_OLD, "eu": NEW}
    assert asked("us-1", done, manual).reason == "wave 2 waits for a person: fleet approve orders 2"
    assert not asked("us-1", done, manual, approved=[3]).goes
    assert asked("us-1", done, manual, approved=[2]).goes
    assert "wave 1" in asked("us-1", ALL_OLD, manual, approved=[2]).reason, "a word does not make a wave healthy"


def test_a_frozen_stack_and_one_outside_of_its_windows_wait() -> None:
    assert "frozen" in asked("eu", ALL_OLD, replace(WAVES, freeze=True)).reason
    assert asked("eu", ALL_OLD, replace(WAVES, windows=("Mon-Fri 09:00-17:00",))).goes
    verdict = asked("eu", ALL_OLD, replace(WAVES, windows=("Sat,Sun 02:00-05:00", "Tue 22:00-02:00")))
    assert verdict == GateDecision("it is outside of its windows; the next begins Tue 22:00 UTC", 34 * 3600)
    berlin = replace(WAVES, windows=("12:30-14:00",), timezone="Europe/Berlin")
    assert asked("eu", ALL_OLD, berlin).goes, "13:00 there"


@pytest.mark.parametrize(
    ("text", "day", "hour", "holds"),
    [
        ("22:00-04:00", 16, 23, True),
        ("22:00-04:00", 17, 3, True),
        ("22:00-04:00", 17, 4, False),
        ("Mon 22:00-04:00", 17, 3, True),  # it began on Monday
        ("Tue 22:00-04:00", 17, 3, False),
        ("Fri-Mon 00:00-24:00", 16, 12, True),
        ("Fri-Mon 00:00-24:00", 17, 12, False),
    ],
)
def test_windows(text: str, day: int, hour: int, holds: bool) -> None:
    assert parse_window(text).holds(datetime(2026, 11, day, hour, tzinfo=UTC)) == holds


def test_stacks_that_it_needs_are_healthy_at_this_revision_here_or_else_everywhere() -> None:
    plain = RolloutData((("eu",),), "0s", "15m")

    def needing(standings: dict[str, RolloutState]) -> GateDecision:
        return decide_gate("shop", "eu", plain, {"eu": OLD}, {"db": standings}, now=NOW)

    assert needing({"eu": NEW, "us": replace(NEW, health="Degraded")}).goes
    assert needing({"eu": OLD}).reason == "it needs stack db, which does not have this revision yet, and is Healthy"
    assert not needing({"us": NEW, "ap": OLD}).goes, "it is in other clusters: all of them count"
    assert needing({"us": NEW, "ap": NEW}).goes
    assert needing({"us": RolloutState()}).reason == "it needs stack db, which in us was not looked at yet"


def stack(name: str, rollout: RolloutData, clusters: tuple[str, ...], needs: tuple[str, ...] = ()) -> StackResult:
    desired = tuple(Desired(name, cluster, ()) for cluster in clusters)
    return StackResult(name, Source("stacks/all.py", 1), clusters, rollout, desired, needs)


def test_a_commit_s_rollout_knows_what_it_began_what_is_approved_and_what_goes_together() -> None:
    orders = stack("orders", replace(WAVES, waves=(("eu",), ("us",)), approve=(2,)), ("eu", "us"), needs=("db", "gone"))
    db = stack("db", RolloutData((("eu",),), "0s", "15m"), ("eu",))
    states = {("orders", "eu"): NEW, ("orders", "us"): OLD, ("db", "eu"): NEW}
    begun: set[tuple[str, str]] = set()
    approvals = {("orders", changes_digest(orders)): frozenset({2})}
    rollout = CommitRollout({"orders": orders, "db": db}, states, begun, approvals)
    assert rollout.may_begin(orders, "us", now=NOW).goes
    assert "approve orders 2" in replace(rollout, approvals={}).may_begin(orders, "us", now=NOW).reason
    earlier = {("orders", "other content"): frozenset({2})}
    assert not replace(rollout, approvals=earlier).may_begin(orders, "us", now=NOW).goes, "that was for something else"
    begun.add(("orders", "eu"))
    assert rollout.may_begin(orders, "us", now=NOW).reason == "wave 1 is not done: eu is being changed"
    begun.clear()
    states["db", "eu"] = OLD
    assert rollout.may_begin(orders, "us", now=NOW).reason.startswith("it needs stack db, which in eu does not have")
    assert rollout.may_begin(orders, "us", now=NOW, together=["db"]).goes
    del states["orders", "eu"]
    waits = rollout.may_begin(orders, "us", now=NOW, together=["db"])
    assert waits.reason == "wave 1 is not done: eu was not looked at yet"


def test_a_state_is_as_old_as_it_was_unless_something_was_written_or_is_different_now() -> None:
    observed = replace(NEW, since=None)
    assert keep_since(NEW, observed, wrote=False, now=NOW) == NEW
    assert keep_since(NEW, observed, wrote=True, now=NOW).since == NOW
    assert keep_since(NEW, replace(observed, health="Progressing"), wrote=False, now=NOW).since == NOW
    assert keep_since(observed, observed, wrote=False, now=NOW).since == NOW, "not known since when: from now"
