"""What a person asks of an etcd on real nodes is done, while a writer counts what it was promised."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.operator.app_on_nodes import App
from tests.operator.etcd.under_test import election
from tests.operator.writer import Writer

pytestmark = pytest.mark.timeout(900)


def ask(app: App, verb: str, *arguments: str) -> Any:
    """What `fleet VERB registry` says in the end."""
    cluster = app.cluster
    where = [f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}", f"--namespace={app.namespace}"]
    command = [sys.executable, "-m", "fleet", verb, app.name, *arguments, *where, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_acknowledged_write_is_lost_by_what_a_person_asks_for(app: App) -> None:
    app.want(version="3.5", members=3)
    app.wait_ready()
    with app.writer() as writer:
        _switch_over(app, writer)
        _defragment(app, writer)
        _rebuild(app, writer)
        _roll(app, writer)
        numbers = writer.stop()
    app.has_all(numbers)
    app.every_member_has_all(numbers)
    assert [(row["do"], row["phase"]) for row in ask(app, "operations")] == [
        (verb, "Succeeded") for verb in ("switchover", "defragment", "rebuild", "roll")
    ]


def _switch_over(app: App, writer: Writer) -> None:
    before, leader = app.restarts(), election(app)[1]
    target = next(pod for pod in app.uids() if pod != leader)
    writer.strike("switchover", lambda: ask(app, "switchover", f"--to={target}"))
    app.wait("it leads", lambda: election(app)[1] == target, 30)
    assert app.restarts() == before
    writer.goes_on()


def _defragment(app: App, writer: Writer) -> None:
    before, known = app.restarts(), len(app.events())
    writer.strike("defragment", lambda: ask(app, "defragment"))
    app.wait("each is told", lambda: app.reasons()[known:].count("Defragmented") == 3, 30)
    assert app.restarts() == before
    writer.goes_on()


def _rebuild(app: App, writer: Writer) -> None:
    pods, claims = app.uids(), app.claims()
    writer.strike("rebuild", lambda: ask(app, "rebuild", "registry-1"))
    assert [pod for pod, uid in app.uids().items() if pods[pod] != uid] == ["registry-1"]
    assert sum(claims[claim] != uid for claim, uid in app.claims().items()) == 1
    writer.goes_on()


def _roll(app: App, writer: Writer) -> None:
    before = app.uids()
    writer.strike("roll", lambda: ask(app, "roll"))
    assert set(app.uids().values()).isdisjoint(before.values())
    app.wait_ready()
    writer.goes_on()
