"""The service that follows a test's repository, and what a test looks at: objects in clusters, records in git."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleet.lab.cluster.api import Api, RequestRefusedError
from fleet.testing import Cluster
from fleet.testing.git import git
from tests.serve.process import Process
from tests.serve.status_branch import Told
from tests.sync.fleet_repository import FleetRepository


class Served(Process):
    tellers = 1  # processes that write health into git

    def __init__(self, repository: FleetRepository, directory: Path, url: str = "") -> None:
        super().__init__(directory, url or repository.remote.url)
        self.repository = repository
        self._apis: dict[str, Api] = {}
        self._told = Told(repository.remote)

    def push(self, message: str = "change") -> str:
        """Commit what is there and push it; returns the commit."""
        revision = self.repository.commit(message)
        git(self.repository.root, "push", "--quiet", "origin", "HEAD:main")
        return revision

    def data(self, cluster: Cluster, name: str, namespace: str = "") -> dict[str, str] | None:
        """The data of a ConfigMap; None when it is not there."""
        found = self.live(cluster, f"/api/v1/namespaces/{namespace or self.repository.namespace}/configmaps/{name}")
        return None if found is None else dict(found.get("data", {}))

    def live(self, cluster: Cluster, path: str) -> dict[str, Any] | None:
        """What there is at a path of the API. A kubectl each time would be most of a test."""
        api = self._apis.setdefault(cluster.name, cluster.lab.api(cluster.lab.spec.cluster(cluster.name)))
        try:
            return api.get(path)
        except RequestRefusedError:
            return None

    def record(self, cluster: str, stack: str = "") -> dict[str, Any]:
        """What the status branch says, {} while it says nothing."""
        return self._told.record(cluster, stack or self.repository.stack)
