"""The operator's process: which app types it looks after, and how it says so."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_operator.run import describe_engines, engines, operator

from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kube.apps import known_types
from fleet.kube.runtime import Lease
from fleet.names import APP_TYPES
from fleet.objects.resource import Resource
from fleet.version import __version__
from tests.app_types import QUEUE, installed, write_package

OWN = [engine.app.kind() for engine in engines({})]  # of fleet itself
ACTING = QUEUE.replace("contract = 1", 'contract = 1\n    engine = "fleet_queue.engine:QueueEngine"')
ENGINE = """
from fleet.kit.permissions import Permissions
from fleet.objects.resource import Resource
from fleet_queue import Queue


class QueueEngine:
    app = Queue
    resource = Resource("fleet.dev", "v1alpha1", "Queue", "queues", True)
    further_kinds = ()

    def __init__(self, images, permissions):
        assert isinstance(permissions, Permissions)
        self.images = images

    async def close(self):
        pass
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with installed(monkeypatch, tmp_path):
        yield tmp_path


def test_it_looks_after_the_types_of_fleet_and_of_installed_packages(packages: Path) -> None:
    write_package(packages, text=ACTING, files={"engine.py": ENGINE})
    loaded = {engine.app.kind(): engine for engine in engines({"fleet-operator": "registry.test/fleet:1"})}
    assert isinstance(loaded["Etcd"], EtcdEngine)
    assert list(loaded) == sorted([*OWN, "Queue"])
    program = operator({}, lease=Lease("fleet-system", "fleet-operator"))
    assert [controller.name for controller in program.controllers] == [kind.lower() for kind in loaded]
    said = describe_engines([loaded["Etcd"], loaded["Queue"]])
    assert json.loads(said) == {"Etcd.fleet.dev": __version__, "Queue.fleet.dev": "1.2.0"}
    assert known_types({"metadata": {"annotations": {APP_TYPES: said}}}) == json.loads(said)


def test_a_type_that_names_no_half_that_acts_is_looked_after_by_its_declaration(packages: Path) -> None:
    text = (Path(__file__).parents[1] / "kit" / "nats.py").read_text()
    text = text.replace("    app = Nats\n", "    app = Nats\n    contract = 1\n")
    write_package(packages, "fleet-nats", text=text, entry="nats", attribute="NATS")
    _, nats = engines({})
    assert isinstance(nats, PlainEngine)
    assert str(nats.resource) == str(Resource("fleet.dev", "v1alpha1", "Nats", "nats", True))


@pytest.mark.parametrize(
    ("text", "engine", "says"),
    [
        ("import nothing_of_that_name\n", ENGINE, "queue of fleet-queue 1.2.0 cannot be loaded: ModuleNotFoundError"),
        (
            ACTING,
            "import nothing_of_that_name\n",
            "half of Queue that acts cannot be loaded from fleet_queue.engine",
        ),
        (QUEUE, ENGINE, "the app type Queue has no half that acts"),
    ],
)
def test_a_type_of_others_that_cannot_be_used_leaves_the_others_an_operator(
    packages: Path, caplog: pytest.LogCaptureFixture, text: str, engine: str, says: str
) -> None:
    write_package(packages, text=text, files={"engine.py": engine})
    with caplog.at_level(logging.ERROR):
        assert [engine.app.kind() for engine in engines({})] == OWN
    assert says in caplog.text


@pytest.mark.parametrize("text", ["", "no json", "[]", '"x"', '{"Etcd.fleet.dev": 1}'])
def test_a_lease_that_does_not_say_it_is_no_error(text: str) -> None:
    assert known_types({"metadata": {"annotations": {APP_TYPES: text}}}) is None
    assert known_types({"metadata": {}}) is None
    assert known_types(None) is None
