"""A stack that is no longer placed on a cluster: it is forgotten there, and so is what the status branch says of it."""

from __future__ import annotations

from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map

STATUS = "refs/heads/fleet/status"


def test_what_is_forgotten_in_a_cluster_is_not_remembered_in_git_also_if_the_service_died_in_between(
    either: Served,
) -> None:
    """Else a service that starts later counts it among what has left git, commit by commit, until that is too much."""
    served = either
    repository = served.repository
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}))
    first = served.push()
    served.start()
    served.until("both are told", lambda: all(served.record(one.name).get("revision") == first for one in (eu, us)))
    told = repository.remote.git("rev-parse", STATUS).strip()
    repository.wants(config_map("settings", {"a": "1"}), clusters=[eu.name])
    second = served.push()
    served.until("the other is no more", lambda: not served.record(us.name))
    served.until("this one is told", lambda: served.record(eu.name).get("revision") == second)
    assert served.data(us, "settings") == {"a": "1"}, "it is left running"
    served.kill()
    repository.remote.git("update-ref", STATUS, told)  # as if it had been killed before it could tell
    served.start()
    served.until("the other is no more", lambda: not served.record(us.name))
    served.until("this one is told", lambda: served.record(eu.name).get("revision") == second)
