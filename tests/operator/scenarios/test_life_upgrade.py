"""An upgrade that cannot succeed is taken back, and not tried again."""

from __future__ import annotations

import time

import pytest

from fleet.lab.cluster.node import PAUSE
from tests.operator.app_on_nodes import App

pytestmark = pytest.mark.timeout(1800)


def test_a_failed_upgrade_is_rolled_back_and_waits_for_another_word(app: App) -> None:
    app.want(version="3.4", members=3)
    app.wait_ready()
    before = app.uids()
    with app.writer() as writer:
        change = {"version": "3.5", "image": PAUSE}
        fault = writer.strike("an upgrade to an image without etcd", lambda: app.change(**change))
        app.wait("it is given up", lambda: app.condition("Blocked").get("reason") == "RollFailed")
        app.wait("all are well again", lambda: app.status["ready"] == "3/3")
        assert "not tried again" in app.condition("Blocked")["message"]
        assert {one["version"].rpartition(".")[0] for one in app.status["members"]} == {"3.4"}
        after = app.uids()
        assert sum(after[pod] != before[pod] for pod in before) == 1, "only the first one was tried"
        app.operator.kill()  # a new one knows it too
        mark = app.cluster.audit.mark()
        app.operator.start()
        app.wait("it looks after its apps", lambda: app.operator.is_looking(mark))
        time.sleep(6)
        assert app.uids() == after
        app.change(image=None)
        app.wait_ready()
        assert {one["version"].rpartition(".")[0] for one in app.status["members"]} == {"3.5"}
        writer.goes_on()
        numbers = writer.stop()
    print(f"{fault.what}: writes stopped for {writer.outage(fault.at):.2f} s at most")
    writer.was_writing()
    app.has_all(numbers)
