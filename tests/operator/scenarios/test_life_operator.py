"""The operator comes and goes, is told to keep its hands off, or to take an app out: etcd and its data stay."""

from __future__ import annotations

import time

import pytest

from fleet.testing.audit import Request
from tests.operator.app_on_nodes import App

pytestmark = pytest.mark.timeout(1800)


def test_an_operator_that_is_killed_and_started_again_restarts_nobody_and_writes_nothing(app: App) -> None:
    app.want(version="3.5", members=1)
    app.wait_ready()
    before, claims = app.restarts(), app.claims()
    with app.writer(rate=100) as writer:
        for _ in range(3):
            app.operator.kill()
            writer.goes_on()
            begin, ready = time.monotonic(), app.ready_since()
            written = _written_from_its_start(app)
            if not written or (writer.outage(begin) < 1 and app.ready_since() == ready):
                break
            app.wait_ready()  # on a busy machine a member was silent for a moment; that is told, so look once more
        numbers = writer.stop()
    assert (app.restarts(), app.claims()) == (before, claims)
    assert written == []
    app.has_all(numbers)


def _written_from_its_start(app: App) -> list[Request]:
    mark = app.cluster.audit.mark()
    app.operator.start()
    app.wait("it looks after its apps", lambda: app.operator.is_looking(mark))
    time.sleep(12)  # a pass of an app that is well, and the one after
    return [one for one in app.cluster.audit.writes(mark, agent="fleet-operator") if app.namespace in one.uri]


def test_a_paused_app_is_watched_and_not_changed(app: App) -> None:
    app.want(version="3.5", members=1)
    app.wait_ready()
    app.change(paused=True, members=3)
    app.wait("it says so", lambda: app.condition("Paused").get("status") == "True")
    before = app.restarts()
    member = app.process("registry-0")
    member.suspend()  # until it was seen: one that is killed may be back sooner than anybody looks
    try:
        app.wait("its status goes on", lambda: app.status["ready"] == "0/3")
    finally:
        member.kill()
    app.wait("its member is back", lambda: app.status["ready"] == "1/3")
    assert list(app.uids()) == list(before), "nobody joined"
    app.change(paused=False)
    app.wait_ready()
    assert len(app.uids()) == 3
    assert app.status["health"] == "Healthy"


@pytest.mark.parametrize("members", [1, pytest.param(3, marks=pytest.mark.full)])
def test_an_app_that_is_deleted_leaves_its_data_and_finds_it_when_it_is_made_again(app: App, members: int) -> None:
    app.want(version="3.5", members=members)
    app.wait_ready()
    with app.writer(rate=100) as writer:
        writer.goes_on(100)
        numbers = writer.stop()
    claims, identity = app.claims(), app.status["identity"]
    app.cluster.kubectl("delete", "etcd", app.name, "--timeout=180s", timeout=200)
    assert not app.pods()
    assert app.claims() == claims
    left = app.cluster.kubectl("get", "all,cm,secrets,pdb", "-l", "fleet.dev/app=registry", "-o", "name")
    assert left == ""
    app.want(version="3.5", members=members)
    app.wait_ready()
    assert app.claims() == claims
    assert app.status["identity"] == identity
    app.has_all(numbers)
    app.change(volume={"onDelete": "delete"})
    app.wait_ready()
    app.cluster.kubectl("delete", "etcd", app.name, "--timeout=180s", timeout=200)
    app.wait("its volumes go with it", lambda: not app.claims())


@pytest.mark.full
def test_certificates_are_renewed_without_a_restart(app: App) -> None:
    app.want(version="3.5", members=1, tls={"lifetime": "4m"})
    app.wait_ready()
    before, first = app.restarts(), app.certificate("registry-0")
    app.wait("a new one is served", lambda: app.certificate("registry-0") != first)
    app.cluster.kubectl("delete", "secret", "registry-server", "registry-peer")
    second = app.certificate("registry-0")
    app.wait("one that was lost is made anew", lambda: app.certificate("registry-0") != second)
    app.wait_ready()
    with app.writer(rate=50) as writer:
        writer.goes_on()
    assert app.restarts() == before
