"""What the operator keeps of its decisions: a few that differ, the newest observation, and no more than fits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fleet_operator.core import explain
from fleet_operator.core.explain import MOST_ANSWER, MOST_DECISIONS, Explanations

from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.replay import replay
from fleet.kit.observe.observation import Observation
from fleet.kit.operate.record import read_record
from fleet.kit.order import diagnose
from fleet.kit.permissions import DEFAULT, Permissions
from tests.operator.etcd.observations import IMAGES, Drawing

NAME = ("shop", "db")
ENGINE = EtcdEngine(IMAGES)


def made(permissions: Permissions = DEFAULT) -> Explanations:
    return Explanations(ENGINE, IMAGES, permissions)


def note(explanations: Explanations, seen: Observation[Any], *, name: tuple[str, str] = NAME, error: str = "") -> None:
    explanations.note(name, seen, *diagnose(ENGINE.concerns(seen), ENGINE.at_rest(seen)), error)


def later(seen: Observation[Any], seconds: float) -> Observation[Any]:
    return replace(seen, world=replace(seen.world, now=seen.world.now + timedelta(seconds=seconds)))


def decisions(explanations: Explanations) -> list[dict[str, Any]]:
    text = explanations.record(NAME)
    assert text is not None
    found: list[dict[str, Any]] = read_record(text)["decisions"]
    return found


def test_nothing_is_said_of_an_app_about_which_nothing_was_decided() -> None:
    assert made().record(NAME) is None


def test_the_same_decision_is_kept_once_with_its_times() -> None:
    explanations, seen = made(), Drawing().seen()
    for seconds in (0, 10, 20):
        note(explanations, later(seen, seconds))
    (decision,) = decisions(explanations)
    assert (decision["since"], decision["until"]) == ("2026-01-01T12:00:00+00:00", "2026-01-01T12:00:20+00:00")


def test_the_last_decisions_that_differ_are_kept_and_can_be_replayed() -> None:
    explanations = made(Permissions(images=("example.test/*",)))
    for number in range(MOST_DECISIONS + 2):
        drawing = Drawing().silence("db-2") if number % 2 else Drawing()
        note(explanations, later(drawing.seen(), number))
    text = explanations.record(NAME)
    assert text is not None
    replayed = replay(read_record(text))
    assert [decision.recorded["reason"] for decision in replayed] == [
        "Healthy", "MembersUnwell", "Healthy", "MembersUnwell", "Healthy"
    ]  # fmt: skip
    assert all(decision.replayed is not None and not decision.differences for decision in replayed)


def test_what_was_refused_and_what_carrying_out_met_is_said() -> None:
    explanations = made()
    note(explanations, Drawing().seen(), error="Service db is refused")
    assert decisions(explanations)[0]["error"] == "Service db is refused"
    explanations.note_error(NAME, "etcd is busy")
    assert decisions(explanations)[0]["error"] == "etcd is busy"


def test_a_record_that_would_be_too_large_lacks_the_oldest_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    explanations = made()
    note(explanations, Drawing().seen())
    note(explanations, Drawing().silence("db-2").seen())
    whole = explanations.record(NAME)
    assert whole is not None and len(whole) < MOST_ANSWER
    monkeypatch.setattr(explain, "MOST_ANSWER", len(whole) - 1)
    assert [decision["observation"] is None for decision in decisions(explanations)] == [True, False]


def test_observations_of_all_apps_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    explanations = made()
    monkeypatch.setattr(explain, "MOST_KEPT", 20_000)
    for number in range(20):
        for drawing in (Drawing(), Drawing().silence("db-2")):
            note(explanations, drawing.seen(), name=("shop", f"db-{number}"))
    assert sum(app.size for app in explanations._apps.values()) <= 20_000
    assert explanations.record(("shop", "db-0")) is not None


def test_an_app_that_is_gone_is_forgotten() -> None:
    explanations = made()
    note(explanations, Drawing().seen())
    explanations.forget(NAME)
    assert explanations.record(NAME) is None
