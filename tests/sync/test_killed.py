"""`fleet sync` itself, killed at a request: the next one converges, and nothing is left over or lost.

With `--full` it is killed at every single request; without, at a sample of them.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleet.apply.inventory import load
from fleet.kube.lease import PROCESS
from fleet.testing import Cluster
from fleet.testing.proxy import Kill, Match, Plan, Proxy, Rule
from tests.kube.with_client import connected
from tests.sync.fleet_repository import FleetRepository, config_map

BEFORE = (
    config_map("same", {"a": "1"}),
    config_map("changed", {"a": "1", "gone": "1"}),
    config_map("deleted", {"a": "1"}),
)
AFTER = (
    config_map("same", {"a": "1"}),
    config_map("changed", {"a": "2"}),
    config_map("created", {"a": "1"}),
)
DATA = {"same": {"a": "1"}, "changed": {"a": "2"}, "created": {"a": "1"}, "deleted": None}


def labelled(repository: FleetRepository, cluster: Cluster) -> set[str]:
    """ConfigMaps that carry the stack's label."""
    found = cluster.get("configmaps", "-n", repository.namespace, "-l", f"fleet.dev/stack={repository.stack}")
    return {one["metadata"]["name"] for one in found["items"]}


def known(repository: FleetRepository, cluster: Cluster) -> set[str]:
    """ConfigMaps in the stack's inventory, as it stands in the cluster."""
    found = connected(cluster, lambda client: load(client, repository.stack, cluster.name))
    return {one.key.name for one in found.inventory.entries if one.key.kind == "ConfigMap"}


@pytest.mark.timeout(1800)
def test_a_killed_sync_is_finished_by_the_next(
    repository: FleetRepository, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    eu, _ = repository.clusters
    repository.wants(*BEFORE)
    before = repository.commit()
    repository.wants(*AFTER)
    after = repository.commit()
    eu.kubectl("create", "namespace", repository.namespace)
    eu.kubectl("-n", repository.namespace, "create", "configmap", "stranger", "--from-literal=whose=theirs")
    with Proxy(eu.kubeconfig, eu.context, tmp_path) as proxy:
        options = ["--no-status", "--cluster", eu.name, "--kubeconfig", str(proxy.kubeconfig), "--revision"]
        assert repository.sync(*options, before).code == 0
        proxy.requests.clear()
        assert repository.sync(*options, after).code == 0
        total = len(proxy.requests)
        full = request.config.getoption("--full")
        every = range(1, total + 1) if full else range(3, total + 1, max(1, total // 5))
        command = [sys.executable, "-m", "fleet", "sync", *options, after]
        kills = 0
        for k in every:
            assert repository.sync(*options, before).code == 0
            kills += proxy.run(command, Plan([Rule(Match(), Kill(), nth=k)])).returncode == -9
            assert labelled(repository, eu) <= known(repository, eu), f"killed at {k}, it left what no inventory knows"
            done = repository.sync(*options, after)
            assert done.code == 0, done.err
            assert {name: repository.data(eu, name) for name in DATA} == DATA
            assert repository.sync("--expect-no-changes", *options, after).code == 0
    assert kills >= len(every) - 2, "requests are concurrent, so a run may need one or two fewer than the one counted"
    print(f"killed at {kills} of {total} requests, and every time the next sync converged")
    assert repository.data(eu, "stranger") == {"whose": "theirs"}


def test_a_killed_sync_on_another_machine_is_waited_for_by_name_and_not_beyond_its_lease(
    repository: FleetRepository, tmp_path: Path
) -> None:
    eu, _ = repository.clusters
    repository.wants(*(config_map(f"c{number}", {"a": "1"}) for number in range(10)))
    repository.commit()
    options = ["--no-status", "--cluster", eu.name]
    with Proxy(eu.kubeconfig, eu.context, tmp_path) as proxy:
        command = [sys.executable, "-m", "fleet", "sync", *options, "--kubeconfig", str(proxy.kubeconfig)]
        assert proxy.run(command, Plan([Rule(Match(writes=True), Kill(), nth=6)])).returncode == -9
    left = json.loads(eu.kubectl("-n", "fleet-system", "get", "lease", repository.stack, "-o", "json"))
    assert left["spec"]["leaseDurationSeconds"] == 30
    # As if it had run elsewhere, where nobody here can see that it is dead, and half of its 30 seconds ago.
    renewed = datetime.now(UTC) - timedelta(seconds=15)
    change = {
        "metadata": {"annotations": {PROCESS: "elsewhere/1/2.00"}},
        "spec": {"renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
    }
    eu.kubectl("-n", "fleet-system", "patch", "lease", repository.stack, "--type=merge", "-p", json.dumps(change))
    due = renewed + timedelta(seconds=30)
    done = repository.sync(*options)
    over = datetime.now(UTC)
    assert done.code == 0, done.err
    holder = left["spec"]["holderIdentity"].rpartition(" ")[0]
    assert f"waiting (another sync of it is running: {holder} since 20" in done.err
    assert due <= over < due + timedelta(seconds=3 + 60), "grace, and what the sync itself takes on a busy machine"
    assert repository.data(eu, "c9") == {"a": "1"}
    assert eu.kubectl("-n", "fleet-system", "get", "lease", repository.stack, "--ignore-not-found").strip() == ""
