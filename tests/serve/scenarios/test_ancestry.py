"""Another past, as a service meets it that nobody told what was applied: only the clusters know."""

from __future__ import annotations

from fleet.testing.git import git
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map


def test_a_service_without_memory_asks_the_clusters_whose_past_they_have(served: Served) -> None:
    repository = served.repository
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}))
    served.push()
    served.start("--no-status")
    served.until("it is there", lambda: served.data(eu, "settings") == served.data(us, "settings") == {"a": "1"})
    served.kill()
    git(repository.root, "checkout", "--quiet", "--orphan", "other")
    repository.wants(config_map("settings", {"a": "2"}))
    repository.commit("another past")
    git(repository.root, "push", "--quiet", "--force", "origin", "HEAD:main")
    served.start("--no-status")
    words = f"{repository.stack} on {eu.name}: Failed"
    served.until("it is refused", lambda: words in served.said())
    assert "the history was rewritten" in served.said()
    assert repository.sync("--allow-rewritten", "--any-branch").code == 0
    repository.wants(config_map("settings", {"a": "3"}))
    repository.commit("it goes on")
    git(repository.root, "push", "--quiet", "origin", "HEAD:main")
    served.until("so it is meant", lambda: served.data(eu, "settings") == served.data(us, "settings") == {"a": "3"})
