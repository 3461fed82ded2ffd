"""Health that changes everywhere at once: few commits, nothing lost, also with two services that write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.serve.report.status import EVERY
from fleet.testing import Cluster
from tests.serve.running_service import Served
from tests.soak.stranger import Stranger

STACK = """
import fleet
from fleet.apps import Etcd

@fleet.stack(clusters={clusters!r}, name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    for number in range(5):
        Etcd(f"app-{{number}}", version="3.5", members=1, storage="1Gi")
"""
Healths = dict[tuple[str, str, str], str]  # by cluster, stack and app


@pytest.fixture
def stacks(served: Served) -> Iterator[list[str]]:
    names = [f"{served.repository.stack}-{letter}" for letter in "abcde"]
    yield names
    for cluster in served.repository.clusters:
        cluster.kubectl("delete", "namespace", "--wait=false", "--ignore-not-found", *names)
        kept = f"fleet.dev/inventory in ({','.join(names)})"
        cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", kept)


def test_fifty_changes_in_a_second_from_two_clusters_and_two_writers_are_few_commits_and_none_is_lost(
    served: Served, stacks: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository = served.repository
    clusters = [one.name for one in repository.clusters]
    for name in stacks:
        repository.write(f"stacks/{name}.py", STACK.format(clusters=clusters, name=name))
    revision = served.push()
    served.start(status_every=f"{EVERY:g}s")
    pairs = [(cluster, stack) for cluster in clusters for stack in stacks]
    served.until("all are told of", lambda: all(served.record(*pair).get("revision") == revision for pair in pairs))

    def told() -> Healths:
        return {(*pair, app["name"]): app["health"] for pair in pairs for app in served.record(*pair)["apps"]}

    def flood(turn: int) -> Healths:
        """All fifty, from both clusters at once."""
        apps = [(cluster, stack, f"app-{number}") for cluster, stack in pairs for number in range(5)]
        wanted = {app: "Degraded" if (index + turn) % 3 else "Healthy" for index, app in enumerate(apps)}

        def of(cluster: Cluster) -> None:
            them = Stranger(cluster.lab.plane(cluster.lab.spec.cluster(cluster.name)).admin())
            for (where, stack, name), health in wanted.items():
                if where == cluster.name:
                    assert them.report(stack, health, name) is not None

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(of, repository.clusters))
        return wanted

    def commits() -> int:
        return int(repository.remote.git("rev-list", "--count", "fleet/status"))

    def most(began: float) -> float:
        """By one writer since then."""
        return 2 + (time.monotonic() - began) / EVERY

    before, began = commits(), time.monotonic()
    wanted = flood(0)
    served.until("every change is told", lambda: told() == wanted)
    one, bound = commits() - before, most(began)
    print(f"50 changes: {one} commits by one writer, of at most {bound:.1f}")
    assert 1 <= one <= bound

    other = Served(repository, tmp_path_factory.mktemp("other"))
    try:
        other.start(status_every=f"{EVERY:g}s")  # without a Lease: both write
        other.until("it has seen everything", lambda: other.ask("/readyz")[0] == 200)
        before, began = commits(), time.monotonic()
        for turn in (1, 2):
            wanted = flood(turn)
        served.until("every change is told", lambda: told() == wanted)
        two, bound = commits() - before, 2 * most(began)
    finally:
        other.kill()
    print(f"100 changes: {two} commits by two writers, of at most {bound:.1f}")
    assert 1 <= two <= bound
    assert served.metric('fleet_status_writes_total{repository="') >= 1
