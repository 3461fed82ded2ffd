"""The service and a person's `fleet sync` at the same stack at the same time: its Lease keeps them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster, GitRemote
from fleet.testing.proxy import Delay, Match, Plan, Proxy, Rule
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository, config_map

SECONDS = 10.0  # that a write of the service takes: enough for a sync to begin meanwhile


@pytest.fixture
def slow(
    clusters: Callable[[int], list[Cluster]],
    git_remote: GitRemote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Served]:
    """A service whose first write of an object takes its time; a person is not held up."""
    repository = FleetRepository(tmp_path / "repository", clusters(1), capsys, monkeypatch, git_remote)
    (cluster,) = repository.clusters
    late = Rule(Match(verb="patch", namespace=repository.namespace, name="settings"), Delay(SECONDS), nth=1)
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path, Plan([late])) as proxy:
        served = Served(repository, tmp_path)
        served.environment["KUBECONFIG"] = str(proxy.kubeconfig)
        yield served
        served.kill()
    cluster.kubectl("delete", "namespace", repository.namespace, "--wait=false")
    cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={repository.stack}")


def test_a_sync_waits_for_the_service_that_changes_the_same_stack_and_says_so(slow: Served) -> None:
    repository = slow.repository
    (cluster,) = repository.clusters
    lease = f"/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases/{repository.stack}"
    repository.wants(config_map("settings", {"a": "1"}))
    revision = slow.push()
    mark = cluster.audit.mark()
    slow.start()
    slow.until("the service has begun", lambda: slow.live(cluster, lease) is not None)
    assert slow.data(cluster, "settings") is None

    done = repository.sync()
    assert done.code == 0, done.err
    assert f"{repository.stack} on {cluster.name}: waiting (another sync of it is running: " in done.err
    assert slow.data(cluster, "settings") == {"a": "1"}
    slow.until("the service is done", lambda: slow.record(cluster.name).get("revision") == revision)
    slow.until("so is its Lease", lambda: slow.live(cluster, lease) is None)
    written = [one for one in cluster.audit.writes(mark, agent="fleet") if one.name == "settings"]
    assert [(one.verb, one.code) for one in written] == [("patch", 201)], "by the service, and by nobody else"
