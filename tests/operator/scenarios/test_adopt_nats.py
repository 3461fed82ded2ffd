"""A NATS that a person set up becomes an app on real nodes, by what every app type gets from its declaration alone: its
pod does not notice. Then it is upgraded, and given back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster
from tests.app_types import installed
from tests.operator.app_on_nodes import App, unattended_app
from tests.operator.existing_setups import Desk
from tests.operator.nats.by_hand import NAME, NatsByHand
from tests.operator.nats.under_test import install_nats, nats_under_test

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(600)]


@pytest.fixture
def unattended(real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    packages = install_nats(tmp_path)
    with installed(monkeypatch, packages):
        real_cluster.images("nats")
        with unattended_app(real_cluster, tmp_path, nats_under_test(packages)) as made:
            yield made


def test_a_nats_of_others_is_adopted_upgraded_and_given_back_with_every_message(
    unattended: App, tmp_path: Path
) -> None:
    app = NatsByHand(unattended.cluster, unattended.operator)
    app.set_up("2.9")
    app.operator.start()
    desk = Desk.make(app.cluster, tmp_path / "repository", app.engine.packages)
    before, restarts = app.described(), app.restarts()
    with app.writer(rate=100, workers=4) as writer:
        said = desk.fleet("adopt", "--namespace", app.namespace, "--write", "stacks")
        assert f"✓ StatefulSet {app.namespace}/{NAME}: nats 2.9, container broker runs NATS" in said
        desk.commit("Take over")
        assert "as it runs: unchanged, restarts 0" in desk.fleet("preview")
        desk.fleet("sync", "--no-status")
        app.wait("it is taken over", lambda: app.condition("Adopted").get("status") == "True", 60)
        app.wait_ready(60)
        writer.goes_on(20)
        assert app.restarts() == restarts, "a pod or a container was started again"
        assert writer.cut == 0, writer.last_problem
        assert app.status["identity"] == before["uid"]
        assert (app.status["version"], app.condition("Converged")["reason"]) == ("2.9", "NextRoll")
        app.has_all(writer.acknowledged)

        app.change(version="2.10", storage="192Mi")
        app.wait("it is upgraded", lambda: app.status.get("version") == "2.10" and app.is_ready(), 90)
        assert app.condition("Converged")["status"] == "True"
        assert app.asked_size() == "192Mi"
        assert app.restarts().keys() == restarts.keys() and app.restarts() != restarts
        writer.goes_on(20)
        app.has_all(writer.acknowledged)

        restarts, rolled = app.restarts(), app.described()
        desk.fleet("disconnect", NAME, "--write", "given-back.yaml")
        writer.goes_on(20)
        numbers = writer.stop()
    assert app.restarts() == restarts
    after = app.described()
    assert (after["uid"], after["labels"]) == (before["uid"], before["labels"])
    assert after["spec"] == {**rolled["spec"], "updateStrategy": before["spec"]["updateStrategy"]}
    assert "fleet-operator" not in {one["manager"] for one in app.stateful()["metadata"]["managedFields"]}
    app.has_all(numbers)
