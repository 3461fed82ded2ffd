"""A status speaks of what was decided about."""

from __future__ import annotations

import datetime

from fleet_operator.core.reconcile import as_decided

from fleet.kit.operate.engine import Report
from fleet.kit.operate.report import status
from fleet.kit.step import Decision, State


def test_a_change_that_came_while_a_pass_went_on_is_not_called_done() -> None:
    looked_at = {"metadata": {"name": "a", "generation": 1}, "spec": {"members": 3}}
    there = {"metadata": {"name": "a", "generation": 2}, "spec": {"members": 5}, "status": {"conditions": []}}
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = status(as_decided(there, looked_at), Decision(State.OK, "Healthy", "well"), Report(), "", now)
    assert made["observedGeneration"] == 1
    assert {one["observedGeneration"] for one in made["conditions"]} == {1}
