"""Predicates, outcomes, the guard, metrics and the counting of events: decisions, tested with data."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleet.errors import ConfigurationError, ConflictError, ResourceError
from fleet.kube.client.client import Client
from fleet.kube.runtime import Controller, GuardedClient, NotLeadingError, Result, TerminalError, Watch
from fleet.kube.runtime.cache import Change
from fleet.kube.runtime.events import EVERY, FORGET, MOST, Recorder
from fleet.kube.runtime.guard import Guard
from fleet.kube.runtime.handlers import (
    all_of,
    annotations_changed,
    any_of,
    child_of,
    generation_changed,
    label,
    labels_changed,
    status_changed,
)
from fleet.kube.runtime.metrics import Counter, Histogram, ReadMetric, begin_series, exposition
from fleet.kube.runtime.outcome import Requeue, classify
from fleet.kube.runtime.writer import made_by_us
from tests.kube.runtime.clock import Clock
from tests.kube.runtime.greeter import CONFIG_MAPS, GREETINGS, greet, greeting


def found(generation: int | None = None, *, status: str = "", **metadata: Any) -> dict[str, Any]:
    own = {"name": "a", **({"generation": generation} if generation else {}), **metadata}
    return {"metadata": own, "status": status}


@pytest.mark.parametrize(
    ("before", "after", "matters"),
    [
        (None, found(1), True),
        (found(1), None, True),
        (found(1), found(2), True),
        (found(1, status="x"), found(1, status="y"), False),
        (found(1), found(1, labels={"a": "b"}), False),
        (found(), found(), True),
    ],
    ids=["made", "gone", "spec", "status", "labels", "a kind without generations"],
)
def test_the_generation_tells_whether_what_is_wanted_changed(before: Any, after: Any, matters: bool) -> None:
    assert generation_changed(Change(before, after)) is matters


def test_predicates_can_be_put_together() -> None:
    relabelled = Change(found(1), found(1, labels={"a": "b"}))
    assert labels_changed(relabelled) and not annotations_changed(relabelled) and not status_changed(relabelled)
    assert any_of(generation_changed, labels_changed)(relabelled)
    assert not all_of(generation_changed, labels_changed)(relabelled)
    assert annotations_changed(Change(found(1), found(1, annotations={"a": "b"})))
    assert status_changed(Change(found(1, status="x"), found(1, status="y")))


@pytest.mark.parametrize(
    ("ended", "label", "then"),
    [
        (None, "success", Requeue.WAIT),
        (Result(), "success", Requeue.WAIT),
        (Result(requeue_after=0), "requeue_after", Requeue.AFTER),
        (Result(requeue_after=1.5), "requeue_after", Requeue.AFTER),
        (TerminalError("no such version"), "error", Requeue.WAIT),
        (TimeoutError(), "error", Requeue.BACK_OFF),
        (ConflictError("changed"), "error", Requeue.BACK_OFF),
        (ResourceError("no answer"), "error", Requeue.BACK_OFF),
        (NotLeadingError("late"), "error", Requeue.DROP),
        (ZeroDivisionError(), "error", Requeue.BACK_OFF),
        (asyncio.CancelledError(), "error", Requeue.BACK_OFF),
    ],
)
def test_every_end_of_a_pass_has_its_consequence(ended: Any, label: str, then: Requeue) -> None:
    verdict = classify(ended, 5)
    assert (verdict.label, verdict.then) == (label, then)
    assert bool(verdict.says) == (label == "error" and then is not Requeue.DROP)


def test_the_guard_lets_writes_through_until_its_time_and_reads_always() -> None:
    clock = Clock()
    guard = Guard(clock)
    guard.check("DELETE", "/api/v1/pods")
    guard.open_until(clock() + 10)
    clock.pass_by(9.9)
    guard.check("PATCH", "/api/v1/pods")
    clock.pass_by(0.2)
    guard.exempt = frozenset({"/lease"})
    guard.check("GET", "/api/v1/pods")
    guard.check("PUT", "/lease")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(NotLeadingError, match="was not sent"):
            guard.check(method, "/lease/other")
    guard.open_until(clock() + 1)
    guard.shut()
    assert not guard.is_open and guard.remaining == 0


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    counter = Counter("a_total", "Things.", ("kind",), registry=None)
    begin_series(counter, ("never",))
    counter.labels('with "quotes"\n').inc()
    counter.labels("b").inc(2)
    histogram = Histogram("h_seconds", "Time.", ("c",), buckets=(0.1, 1.0), registry=None)
    for amount in (0.05, 0.1, 0.5, 7):
        histogram.labels("x").observe(amount)
    gauge = ReadMetric("g", "Now.", (), lambda: [((), 3.0)])
    read = ReadMetric("r_total", "Read.", ("kind",), lambda: [(("b",), 12_345_678.0)], kind="counter")
    assert exposition([counter, histogram, gauge, read]).decode().splitlines() == [
        "# HELP a_total Things.",
        "# TYPE a_total counter",
        'a_total{kind="never"} 0.0',
        r'a_total{kind="with \"quotes\"\n"} 1.0',
        'a_total{kind="b"} 2.0',
        "# HELP h_seconds Time.",
        "# TYPE h_seconds histogram",
        'h_seconds_bucket{c="x",le="0.1"} 2.0',
        'h_seconds_bucket{c="x",le="1.0"} 3.0',
        'h_seconds_bucket{c="x",le="+Inf"} 4.0',
        'h_seconds_count{c="x"} 4.0',
        'h_seconds_sum{c="x"} 7.65',
        "# HELP g Now.",
        "# TYPE g gauge",
        "g 3.0",
        "# HELP r_total Read.",
        "# TYPE r_total counter",
        'r_total{kind="b"} 1.2345678e+07',
    ]


def test_a_happening_that_repeats_is_counted_and_written_seldom() -> None:
    clock, client = Clock(), GuardedClient()
    client.guard.shut()
    recorder = Recorder(client, "tests", "here", clock=clock)
    one = {**greeting("a", "ns"), "apiVersion": "v1", "kind": "X"}
    for _ in range(3):
        recorder.record(one, "Failed", "no luck", warning=True)
    recorder.record(one, "Failed", "another reason", warning=True)
    first, other = recorder.pending()
    assert (first.count, other.count) == (3, 1)
    assert first.body["type"] == "Warning" and first.body["regarding"]["name"] == "a"
    asyncio.run(recorder.flush())  # the guard is shut: they are lost, and that is no error
    recorder.record(one, "Failed", "no luck", warning=True)
    assert recorder.pending() == []
    assert recorder.pending(all_of_them=True) == [first]
    clock.pass_by(EVERY)
    assert recorder.pending() == [first] and first.count == 4
    asyncio.run(recorder.flush())
    clock.pass_by(FORGET + 1)
    recorder.record(one, "Failed", "no luck", warning=True)
    (anew,) = recorder.pending()
    assert anew.count == 1 and anew.path != first.path


def test_events_that_nobody_can_write_do_not_pile_up() -> None:
    recorder = Recorder(Client(), "tests", "here", clock=Clock())
    one = {**greeting("a", "ns"), "apiVersion": "v1", "kind": "X"}
    for number in range(MOST + 10):
        recorder.record(one, "Failed", f"reason {number}")
    left = recorder.pending()
    assert len(left) == MOST and left[-1].body["note"] == f"reason {MOST + 9}"


def test_a_controller_that_watches_a_kind_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="twice"):
        Controller("x", GREETINGS, greet, owns=(CONFIG_MAPS,), watches=(Watch(CONFIG_MAPS, label("app")),))


def test_a_child_has_its_parent_s_name_unless_told_otherwise() -> None:
    parent = greeting("g", "ns")
    parent["metadata"]["uid"] = "1"
    child = child_of(parent, data={"a": "b"})
    assert (child["metadata"]["name"], child["metadata"]["namespace"], child["data"]) == ("g", "ns", {"a": "b"})
    other = child_of(parent, name="g-0", labels={"x": "y"})
    assert other["metadata"]["name"] == "g-0" and other["metadata"]["labels"] == {"x": "y"}
    assert other["metadata"]["ownerReferences"][0]["uid"] == "1"


def managed(*entries: tuple[str, str]) -> dict[str, Any]:
    return {"metadata": {"managedFields": [{"manager": manager, "time": time} for manager, time in entries]}}


@pytest.mark.parametrize(
    ("before", "answer", "ours"),
    [
        (managed(("us", "10:00")), managed(("us", "10:01"), ("them", "09:00")), True),
        (managed(("us", "10:00")), managed(("us", "10:01"), ("them", "10:01")), True),
        (managed(), managed(("us", "10:01"), ("them", "09:00")), True),
        (managed(("us", "10:00")), managed(("us", "10:00"), ("them", "10:05")), False),
        (managed(("us", "10:00")), managed(("us", "10:01"), ("them", "10:05")), False),
        (managed(("us", "10:00")), managed(("us", "10:00")), False),
        (managed(("us", "10:00")), managed(("them", "10:05")), False),
        (None, managed(("us", "10:01")), False),
    ],
    ids=[
        "changed by us",
        "by us, after them in one second",
        "ours for the first time",
        "theirs, and we had nothing to change",
        "ours of an earlier process, then theirs",
        "twice in one second",
        "not ours at all",
        "nothing known before",
    ],
)
def test_a_version_is_ours_only_where_the_server_leaves_no_doubt(before: Any, answer: Any, ours: bool) -> None:
    assert made_by_us(before, answer, "us") is ours
