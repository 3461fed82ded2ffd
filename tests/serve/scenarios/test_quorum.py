"""A real etcd that loses its quorum in the first wave stops the second; when it is well again, the rollout goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.testing import Cluster, Faults, GitRemote
from tests.operator.app_on_nodes import App
from tests.operator.conftest import app, unattended  # noqa: F401 - fixtures are found by their names
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository

STACK = """
import fleet
from fleet.apps import Etcd
from fleet import Resources

@fleet.stack(
    clusters={clusters!r}, name={name!r}, namespace={namespace!r}, rollout=fleet.Rollout(waves={clusters!r})
)
def stack(cluster: fleet.Cluster) -> None:
    if cluster.name == {first!r}:
        Etcd("registry", version="3.5", members=3, storage="512Mi", resources=Resources(cpu="200m", memory="256Mi"))
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "words"}},
                     "data": {{"version": {version!r}}}}})
"""


@pytest.fixture
def served(
    app: App,  # noqa: F811
    clusters: Callable[[int], list[Cluster]],
    git_remote: GitRemote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Served]:
    both = [app.cluster, *clusters(1)]
    repository = FleetRepository(tmp_path / "repository", both, capsys, monkeypatch, git_remote)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(str(one.kubeconfig) for one in both))
    made = Served(repository, tmp_path)
    yield made
    made.kill()
    for one in both:
        one.kubectl(
            "-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={repository.stack}", "--wait=false"
        )


def is_stopped(record: dict[str, Any], revision: str) -> bool:
    """The first word may be that the first wave was not looked at yet."""
    return bool(
        (record.get("wanted"), record.get("sync")) == (revision, "Waiting") and "stopped" in record.get("message", "")
    )


@pytest.mark.real_nodes
def test_a_lost_quorum_stops_the_next_wave_and_a_regained_one_lets_it_go_on(
    served: Served,
    app: App,  # noqa: F811
    faults: Faults,
) -> None:
    repository = served.repository
    first, second = repository.clusters
    namespace = first.namespace

    def wants(version: str) -> str:
        names = [one.name for one in repository.clusters]
        values = {"clusters": names, "name": repository.stack, "namespace": namespace, "first": first.name}
        repository.write("stacks/stack.py", STACK.format(version=version, **values))
        return served.push(version)

    one = wants("1")
    served.start()
    served.until("both waves are done", lambda: served.record(second.name).get("revision") == one, 180)
    assert served.record(first.name)["apps"][0]["members"] == "3/3"
    assert served.data(second, "words", namespace) == {"version": "1"}

    broken = [faults.freeze("pod/registry-1"), faults.freeze("pod/registry-2")]
    # Members that the operator has just started may take two minutes until they count as ill.
    served.until("git says so", lambda: served.record(first.name).get("health") == "Degraded", 180)
    assert served.record(first.name)["apps"][0]["available"] == "no"
    two = wants("2")
    served.until("the second wave is stopped", lambda: is_stopped(served.record(second.name), two))
    served.until("the first wave has it", lambda: served.data(first, "words", namespace) == {"version": "2"})
    assert served.data(second, "words", namespace) == {"version": "1"}

    for each in broken:
        each.clear()
    served.until("it goes on", lambda: served.record(second.name).get("revision") == two, 120)
    assert served.data(second, "words", namespace) == {"version": "2"}
