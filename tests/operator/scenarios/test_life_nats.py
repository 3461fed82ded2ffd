"""The life of a NATS on real nodes, by what every app type gets from its declaration alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster
from fleet.testing.app_type import check_app_type
from tests.app_types import installed
from tests.operator.app_on_nodes import App, unattended_app
from tests.operator.nats.under_test import install_nats, nats_under_test
from tests.operator.writer import Writer

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(900)]
KEPT = {"volume": {"onScaleIn": "keep"}}


@pytest.fixture
def app(real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    packages = install_nats(tmp_path)
    with installed(monkeypatch, packages):
        engine = nats_under_test(packages)
        check_app_type(engine.app_type, engine.app_type.app("sample", version="2.10", members=2))
        real_cluster.images("nats")
        with unattended_app(real_cluster, tmp_path, engine) as made:
            made.operator.start()
            yield made


def test_no_acknowledged_message_is_lost_through_the_life_of_a_nats(app: App) -> None:
    """A setting, more storage, an upgrade, a member more and less, and deletion that keeps the data."""
    app.want(version="2.9", **KEPT, storage="128Mi")
    app.wait_ready()
    with app.writer(rate=100, workers=4) as writer:
        before = app.uids()
        _change(app, writer, "a setting", lambda: app.change(maxPayload=2 << 20))
        assert app.uids().keys() == before.keys() and app.uids() != before
        _grow(app, writer)
        _change(app, writer, "upgrade", lambda: app.change(version="2.10"))
        assert [one["version"] for one in app.status["members"]] == ["2.10"]
        _resize(app, writer)
        numbers = writer.stop()
    writer.was_writing()
    app.has_all(numbers)
    _delete_and_make_again(app, numbers)


def _change(app: App, writer: Writer, what: str, action: Callable[[], object]) -> None:
    """It is done, clients write on, and nothing is lost."""
    fault = writer.strike(what, action)
    app.wait_ready()
    writer.goes_on(20)
    app.has_all(writer.acknowledged)
    took, outage = time.monotonic() - fault.at, writer.outage(fault.at)
    print(f"{what}: {took:.1f} s, longest time without an acknowledgement {outage:.2f} s")


def _grow(app: App, writer: Writer) -> None:
    """Nobody restarts for it."""
    before, claim = app.restarts(), f"data-{app.name}-0"
    _change(app, writer, "more storage", lambda: app.change(storage="192Mi"))
    app.wait("it has grown", lambda: app.cluster.get("pvc", claim)["status"]["capacity"]["storage"] == "192Mi")
    assert app.restarts() == before


def _resize(app: App, writer: Writer) -> None:
    """The member that stays is not touched, and the volume of the one that leaves is kept for its return."""
    before, first, second = app.restarts(), f"{app.name}-0", f"{app.name}-1"
    _change(app, writer, "a member more", lambda: app.change(members=2))
    assert [one["name"] for one in app.status["members"]] == [first, second]
    _change(app, writer, "a member less", lambda: app.change(members=1))
    assert [one["name"] for one in app.status["members"]] == [first]
    assert app.restarts() == before
    assert set(app.claims()) == {f"data-{first}", f"data-{second}"}


def _delete_and_make_again(app: App, numbers: frozenset[int]) -> None:
    """Its volume is there for another app of its name, with all that was written."""
    claims = app.claims()
    app.cluster.kubectl("delete", app.engine.resource.title, app.name, "--timeout=60s")
    assert not app.cluster.get("statefulsets")["items"]
    app.wait("its pods are gone", lambda: not app.pods())
    assert app.claims() == claims
    app.want(version="2.10", **KEPT, storage="192Mi")
    app.wait_ready()
    assert app.claims() == claims
    app.has_all(numbers)
