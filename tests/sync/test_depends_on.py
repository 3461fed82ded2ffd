"""`depends_on` within a stack: what depends on an app is applied when that is healthy, by a sync as by the service."""

from __future__ import annotations

import threading
import time
from typing import Any

from fleet.testing import Cluster
from tests.sync.fleet_repository import FleetRepository, config_map

BESIDE = config_map("beside", {"a": "1"})


def workload(kind: str, group: str, repository: FleetRepository, **spec: Any) -> str:
    """One that runs once a node has the label of this test's own."""
    labels = {"app": "web"}
    containers = [{"name": "web", "image": "localhost/web:1"}]
    pod = {"nodeSelector": {repository.stack: "yes"}, "containers": containers, **spec.pop("pod", {})}
    template = {"metadata": {"labels": labels}, "spec": pod}
    metadata = {"name": "web"}
    return repr(
        {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": {"template": template, **spec}}
    )


def wants(repository: FleetRepository, cluster: Cluster, manifest: str) -> None:
    after = config_map("after", {"a": "1"}, "depends_on=[web]")
    repository.wants(f"web = fleet.Manifest({manifest})", after, BESIDE, clusters=[cluster.name])
    repository.commit()


def let_run(repository: FleetRepository, cluster: Cluster, seen: list[bool]) -> None:
    """Once the workload and what does not wait for it are there."""
    end = time.monotonic() + 90
    while not (repository.data(cluster, "beside") and repository.get(cluster, "deployment", "web")):
        assert time.monotonic() < end
        time.sleep(0.2)
    seen.append(repository.data(cluster, "after") is not None)
    cluster.kubectl("label", "nodes", "--all", f"{repository.stack}=yes")


def test_a_sync_waits_for_the_health_of_what_others_depend_on(repository: FleetRepository) -> None:
    cluster = repository.clusters[0]
    wants(repository, cluster, workload("Deployment", "apps", repository, selector={"matchLabels": {"app": "web"}}))
    seen: list[bool] = []
    person = threading.Thread(target=let_run, args=(repository, cluster, seen))
    person.start()
    done = repository.fleet("sync", "--timeout", "3m")
    person.join()

    assert done.code == 0, done.err
    assert seen == [False], "it was applied before its app was well"
    assert repository.data(cluster, "after") == {"a": "1"}
    assert f"waiting (Deployment.apps {repository.namespace}/web is Progressing" in done.err
    assert repository.sync("--expect-no-changes").code == 0


def test_what_is_not_well_in_time_leaves_the_rest_waiting_and_the_next_sync_goes_on(
    repository: FleetRepository,
) -> None:
    cluster = repository.clusters[0]
    wants(repository, cluster, workload("Deployment", "apps", repository, selector={"matchLabels": {"app": "web"}}))
    for flags in (("--no-wait",), ("--timeout", "2s")):
        left = repository.fleet("sync", *flags)
        assert left.code == 5, left.err
        assert f"/after waits: Deployment.apps {repository.namespace}/web is Progressing" in left.err
        assert repository.data(cluster, "after") is None
        assert repository.data(cluster, "beside") == {"a": "1"}
    let_run(repository, cluster, [])
    assert repository.fleet("sync", "--timeout", "3m").code == 0
    assert repository.data(cluster, "after") == {"a": "1"}


def test_what_will_not_get_well_by_itself_is_not_waited_for(repository: FleetRepository) -> None:
    cluster = repository.clusters[0]
    job = workload("Job", "batch", repository, activeDeadlineSeconds=1, pod={"restartPolicy": "Never"})
    wants(repository, cluster, job)
    begun = time.monotonic()
    left = repository.fleet("sync", "--timeout", "30m")
    assert time.monotonic() - begun < 300
    assert left.code == 4, left.err
    assert f"/after waits: Job.batch {repository.namespace}/web is Degraded" in left.err
    assert repository.data(cluster, "after") is None
