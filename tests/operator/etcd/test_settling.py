"""A member that is not well because the operator has just had it started is on its way, and nothing is wrong: from what
one pass may find."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from fleet_operator.core.execute import Unapplied
from fleet_operator.core.ownership import NotOursError
from fleet_operator.core.reconcile import LASTING, TRIES, as_attached, as_refused, as_tried, unattached_for

from fleet.errors import ConflictError, FleetError, ResourceError
from fleet.kit.decide.health import SETTLING
from fleet.kit.operate.engine import Report
from fleet.kit.operate.report import status
from fleet.kit.step import Act, State, step, wait
from fleet.kube.client.errors import OverloadedError, UnansweredError
from tests.operator.etcd.observations import Drawing, app, before

FIVE = app(members=5)
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
REST = wait(State.OK, "Healthy", "3 members", 10.0)


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


@pytest.mark.parametrize(
    "problem",
    [
        ConflictError("services store-peers: already exists"),  # made a moment ago, and the cache has not heard of it
        OverloadedError("too many requests"),
        UnansweredError("failed calling webhook: no endpoints available"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_a_refusal_that_the_next_reconcile_may_settle_is_no_fault_until_it_lasts(problem: FleetError) -> None:
    refused = [Unapplied("CronJob store-backup", problem)]
    brief = as_attached(REST, refused, 0.0)
    assert (brief.state, brief.reason) == (State.PROGRESSING, "Refused")
    assert brief.after < REST.after, "it is looked at again soon"
    assert as_attached(REST, refused, LASTING).state is State.DEGRADED


@pytest.mark.parametrize("problem", [ResourceError("exceeded quota"), NotOursError("it is of another app")])
def test_a_refusal_that_lasts_until_a_person_changes_something_is_a_fault_at_once(problem: FleetError) -> None:
    settling = Unapplied("Service store", ConflictError("it changed"))
    for refused in ([Unapplied("CronJob a", problem)], [settling, Unapplied("CronJob a", problem)]):
        assert as_attached(REST, refused, 0.0).state is State.DEGRADED


def test_the_status_remembers_since_when_something_is_refused() -> None:
    manifest: dict[str, Any] = {"metadata": {"name": "db", "generation": 1}, "spec": {}}
    refused = [Unapplied("CronJob store-backup", UnansweredError("failed calling webhook"))]
    for seconds in (0, 20, 70):
        now = NOW + datetime.timedelta(seconds=seconds)
        assert unattached_for(manifest, now) == seconds
        decision = as_attached(REST, refused, unattached_for(manifest, now))
        manifest["status"] = status(manifest, decision, as_refused(Report(available=True), refused), "", now)
        assert manifest["status"]["health"] == ("Degraded" if seconds > LASTING else "Progressing")
    manifest["status"] = status(manifest, REST, Report(available=True), "", NOW)
    assert unattached_for(manifest, NOW) == 0.0


def test_what_is_on_its_way_is_progressing_in_the_status_and_not_degraded() -> None:
    manifest = {"metadata": {"name": "db", "generation": 1}, "spec": {}}
    decision = wait(joined("db-4").decision().state, "MembersUnwell", "db-4: it is not ready")
    said = status(manifest, decision, Report(available=True), "", NOW)
    conditions = {one["type"]: one["status"] for one in said["conditions"]}
    assert said["health"] == "Progressing"
    assert (conditions["Progressing"], conditions["Degraded"]) == ("True", "False")
