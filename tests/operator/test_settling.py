"""A member that is not well because the operator has just had it started is on its way, and nothing is wrong: from what
one pass may find."""

from __future__ import annotations

import datetime

import pytest
from fleet_operator.core.engine import Report
from fleet_operator.core.reconcile import TRIES, as_tried
from fleet_operator.core.report import status
from fleet_operator.core.step import Act, State, step, wait
from fleet_operator.engines.etcd.faults import SETTLING

from fleet.errors import ResourceError
from tests.operator.drawn import Drawing, app, before

FIVE = app(members=5)


def joined(pod: str, *, since: float = 5, drawing: Drawing | None = None) -> Drawing:
    """The operator wrote the StatefulSet so many seconds ago; the pod was made then, and its kubelet waits for it."""
    drawn = drawing or Drawing(app=FIVE, ran=FIVE)
    assert drawn.set is not None
    drawn.set["metadata"]["managedFields"] = [{"manager": "fleet-operator", "time": before(since + 1)}]
    drawn.pods[pod]["metadata"]["creationTimestamp"] = before(since)
    return drawn.unready(pod, since=since)


def four_of_five() -> Drawing:
    drawing = Drawing(app=FIVE, ran=FIVE).scale(4).off_the_list("db-4").place("db-4", None)
    for known in (drawing.statuses, drawing.pods, drawing.claims):
        del known["db-4"]
    return drawing


def test_a_member_that_has_just_joined_is_on_its_way_until_its_time_is_over() -> None:
    decision = joined("db-4").decision()
    assert (decision.state, decision.reason, decision.message) == (
        State.PROGRESSING,
        "MembersUnwell",
        "db-4: it is not ready",
    )
    late = joined("db-4", since=SETTLING + 1).decision()
    assert (late.state, late.message) == (State.DEGRADED, "db-4: it is not ready")


def test_the_next_member_waits_for_it_and_nothing_is_wrong() -> None:
    drawing = joined("db-3", drawing=four_of_five())
    decision = drawing.decision()
    assert (decision.state, decision.reason, drawing.steps()) == (State.PROGRESSING, "Waiting", [])
    assert joined("db-3", since=300, drawing=four_of_five()).decision().state is State.DEGRADED


def test_a_member_that_is_ill_beside_it_is_degraded() -> None:
    assert joined("db-4").silence("db-1").decision().state is State.DEGRADED
    assert joined("db-4").crash("db-4", "panic: no", restarts=5).decision().state is State.DEGRADED


def test_a_pod_that_something_else_restarted_is_degraded() -> None:
    drawing = joined("db-2", drawing=Drawing())
    assert drawing.set is not None
    drawing.set["metadata"]["managedFields"] = [{"manager": "fleet-operator", "time": before(9000)}]
    assert drawing.decision().state is State.DEGRADED


@pytest.mark.parametrize("leaving", [True, False], ids=["it ends", "it starts"])
def test_the_only_member_is_away_while_a_roll_restarts_it(leaving: bool) -> None:
    drawing = Drawing(app=app(members=1, config={"options": {"max-txn-ops": "256"}}), ran=app(members=1)).roll(
        partition=0
    )
    joined("db-0", drawing=drawing).no_majority("db-0")
    if leaving:
        drawing.pods["db-0"]["metadata"] |= {"creationTimestamp": before(9000), "deletionTimestamp": before(1)}
    decision = drawing.decision()
    assert (decision.state, decision.reason) == (State.PROGRESSING, "NoMajority")
    assert Drawing(app=app(members=1)).no_majority("db-0").decision().state is State.BLOCKED


def test_a_step_that_fails_is_tried_again_before_the_app_is_called_degraded_for_it() -> None:
    busy, act = ResourceError("db-4: no answer in 2 s"), Act("promote")
    going, mending = step(State.PROGRESSING, "Joining", "db-4 joins", act), step(State.DEGRADED, "Replacing", "", act)
    assert as_tried(going, 1) == going
    failed = [as_tried(going, attempt, busy) for attempt in range(2, TRIES + 2)]
    assert [one.state for one in failed] == [*[State.PROGRESSING] * (TRIES - 1), State.DEGRADED]
    assert {one.message for one in failed} == {"db-4 joins: db-4: no answer in 2 s"}
    again = as_tried(going, TRIES + 1)
    assert (again.state, again.message) == (State.DEGRADED, f"db-4 joins: {TRIES} tries failed"), "nor in between"
    assert (as_tried(mending, 1), as_tried(mending, 2, busy).state) == (mending, State.DEGRADED)


def test_what_is_on_its_way_is_progressing_in_the_status_and_not_degraded() -> None:
    manifest = {"metadata": {"name": "db", "generation": 1}, "spec": {}}
    decision = wait(joined("db-4").decision().state, "MembersUnwell", "db-4: it is not ready")
    said = status(manifest, decision, Report(available=True), "", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
    conditions = {one["type"]: one["status"] for one in said["conditions"]}
    assert said["health"] == "Progressing"
    assert (conditions["Progressing"], conditions["Degraded"]) == ("True", "False")
