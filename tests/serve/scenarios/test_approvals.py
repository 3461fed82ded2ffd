"""A service that applies only what was approved, and a remote that does not tell what was."""

from __future__ import annotations

from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map


def test_a_remote_that_cannot_be_asked_for_approvals_stops_the_stack_and_not_the_service(served: Served) -> None:
    repository = served.repository
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}))
    first = served.push()
    assert repository.sync().code == 0
    served.start("--require-approved")
    served.until("it is ready", lambda: served.ask("/readyz")[0] == 200)
    away = repository.remote.path.with_name("away.git")
    repository.remote.path.rename(away)
    served.until("the remote is missed", lambda: served.metric("fleet_repository_broken") == 1)
    mark = served.mark()
    eu.kubectl("-n", repository.namespace, "delete", "configmap", "settings")
    words = f"{repository.stack} on {eu.name}: Failed"
    served.until("the stack has a problem", lambda: words in served.said(mark))
    assert served.runs
    away.rename(repository.remote.path)
    served.until("it answers again", lambda: served.metric("fleet_repository_broken") == 0)
    served.until("what was applied is put back", lambda: served.data(eu, "settings") == {"a": "1"})
    repository.wants(config_map("settings", {"a": "2"}))
    second = served.push()
    served.until("it is tried", lambda: served.record(us.name).get("wanted") == second)
    assert "is not what was approved" in served.record(us.name)["message"]
    assert served.data(us, "settings") == {"a": "1"}
    assert served.record(us.name)["revision"] == first
