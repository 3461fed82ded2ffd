"""`depends_on` within a stack: what depends on an app is applied when that is healthy, by a sync as by the service."""

from __future__ import annotations

import json
import threading
import time

from fleet.testing import Cluster
from tests.sync.fleet_repository import FleetRepository, config_map

STORE = 'from fleet.apps import Etcd; store = Etcd("store", version="3.5", members=1, storage="1Gi")'
AFTER = config_map("after", {"a": "1"}, "depends_on=[store]")
BESIDE = config_map("beside", {"a": "1"})


def report_ready(repository: FleetRepository, cluster: Cluster, seen: list[bool]) -> None:
    """As an operator would, once the app and what does not wait for it are there."""
    end = time.monotonic() + 60
    while not (repository.data(cluster, "beside") and repository.get(cluster, "etcd", "store")):
        assert time.monotonic() < end
        time.sleep(0.2)
    seen.append(repository.data(cluster, "after") is not None)
    ready = {"type": "Ready", "status": "True", "reason": "Well", "message": "", "observedGeneration": 1}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = json.dumps({"status": {"observedGeneration": 1, "conditions": [ready]}})
    where = ("-n", repository.namespace, "patch", "etcd", "store", "--subresource=status")
    cluster.kubectl(*where, "--type=merge", "--patch", status)


def test_a_sync_waits_for_the_health_of_what_others_depend_on(repository: FleetRepository) -> None:
    cluster = repository.clusters[0]
    repository.wants(STORE, AFTER, BESIDE, clusters=[cluster.name])
    repository.commit()
    seen: list[bool] = []
    operator = threading.Thread(target=report_ready, args=(repository, cluster, seen))
    operator.start()
    done = repository.fleet("sync", "--timeout", "60s")
    operator.join()

    assert done.code == 0, done.err
    assert seen == [False], "it was applied before its app was well"
    assert repository.data(cluster, "after") == {"a": "1"}
    assert f"waiting (Etcd.fleet.dev {repository.namespace}/store is Unknown" in done.err
    assert repository.sync("--expect-no-changes").code == 0


def test_what_is_not_well_in_time_leaves_the_rest_waiting_and_the_next_sync_goes_on(
    repository: FleetRepository,
) -> None:
    cluster = repository.clusters[0]
    repository.wants(STORE, AFTER, BESIDE, clusters=[cluster.name])
    repository.commit()
    for flags in (("--no-wait",), ("--timeout", "2s")):
        left = repository.fleet("sync", *flags)
        assert left.code == 5, left.err
        assert f"after waits: Etcd.fleet.dev {repository.namespace}/store is Unknown" in left.err
        assert repository.data(cluster, "after") is None
        assert repository.data(cluster, "beside") == {"a": "1"}
    report_ready(repository, cluster, [])
    assert repository.sync().code == 0
    assert repository.data(cluster, "after") == {"a": "1"}


def test_what_will_not_get_well_by_itself_is_not_waited_for(repository: FleetRepository) -> None:
    cluster = repository.clusters[0]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate"},
        "spec": {
            "activeDeadlineSeconds": 1,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"no": "such-node"},
                    "containers": [{"name": "migrate", "image": "localhost/migrate:1"}],
                }
            },
        },
    }
    repository.wants(
        f"migrate = fleet.Manifest({job!r})",
        config_map("after", {"a": "1"}, "depends_on=[migrate]"),
        clusters=[cluster.name],
    )
    repository.commit()
    begun = time.monotonic()
    left = repository.fleet("sync", "--timeout", "10m")
    assert time.monotonic() - begun < 300
    assert left.code == 5
    assert "after waits: Job.batch" in left.err
    assert "is Degraded" in left.err
