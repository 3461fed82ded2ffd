"""The pytest plugin. It is loaded in every run of every project that has fleet installed, so it imports late."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fleet.testing.services import fleet_services, forge, s3  # noqa: F401 - pytest finds fixtures by their names here
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.lab.cluster.api import Api
    from fleet.lab.lab import Lab
    from fleet.testing.cluster import Cluster
    from fleet.testing.faults import Faults
    from fleet.testing.git import GitRemote
    from fleet.testing.proxy import Proxy


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fleet", "fleet: real Kubernetes clusters in tests")
    group.addoption("--fleet-lab", metavar="NAME", help="use this running lab where its nodes will do; do not stop it")


class Labs:
    """The labs of one test run, started when first asked for and removed at its end.

    They belong to this process: if it is killed, the next `fleet lab up` on the machine removes them.
    """

    def __init__(self, existing: str | None) -> None:
        self._existing = existing
        self._own: dict[str, Lab] = {}

    def simulated(self, count: int) -> Lab:
        """Return a lab with so many clusters of simulated nodes."""
        from fleet.lab.lab import Lab

        names = [f"c{index + 1}" for index in range(count)]
        if self._existing:
            lab = Lab.open(self._existing)
            if len(lab.spec.clusters) < count:
                clusters = count_noun(len(lab.spec.clusters), "cluster")
                pytest.fail(f"lab {self._existing!r} has {clusters}, the test needs {count}")
            return lab
        return self._up("s", names, nodes="simulated")

    def real(self) -> Lab:
        """Return a lab with a cluster of real nodes."""
        from fleet.lab.lab import Lab

        if self._existing and (lab := Lab.open(self._existing)).spec.clusters[0].nodes == "real":
            return lab
        return self._up("r", ["real"], nodes="real")

    def extra(self, purpose: str, names: list[str], **options: object) -> Lab:
        """Return a lab of its own for one purpose."""
        return self._up(purpose, names, **options)

    def _up(self, purpose: str, names: list[str], **options: object) -> Lab:
        from fleet.lab.lab import Lab
        from fleet.lab.programs.process import identify

        lab = self._own.get(purpose)
        if lab is None or len(lab.spec.clusters) < len(names):
            lab = Lab.up(f"t{os.getpid()}-{purpose}", names, owner=identify(os.getpid()), **options)  # type: ignore[arg-type]
            self._own[purpose] = lab
        return lab

    def close(self) -> None:
        """Remove the labs that were started here."""
        for lab in self._own.values():
            if lab.directory.exists():
                lab.down()


@pytest.fixture(scope="session")
def fleet_labs(request: pytest.FixtureRequest) -> Iterator[Labs]:
    """The labs of this run; the other fixtures take their clusters from here."""
    labs = Labs(request.config.getoption("--fleet-lab"))
    yield labs
    labs.close()


@pytest.fixture
def cluster(fleet_labs: Labs, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A real API server with simulated nodes, shared by the run; a fresh namespace for this test."""
    own_cluster = _create_namespace(fleet_labs.simulated(1), 0, request)
    yield own_cluster
    _remove_namespace(own_cluster)


@pytest.fixture
def clusters(fleet_labs: Labs, request: pytest.FixtureRequest) -> Iterator[Callable[[int], list[Cluster]]]:
    """`clusters(3)`: three real API servers with simulated nodes, each with a fresh namespace for this test."""
    used_clusters: list[Cluster] = []

    def give(count: int) -> list[Cluster]:
        lab = fleet_labs.simulated(count)
        new_clusters = [_create_namespace(lab, index, request) for index in range(count)]
        used_clusters.extend(new_clusters)
        return new_clusters

    yield give
    for used_cluster in used_clusters:
        _remove_namespace(used_cluster)


@pytest.fixture
def real_cluster(fleet_labs: Labs, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with two real nodes, shared by the run; a fresh namespace for this test."""
    own_cluster = _create_namespace(fleet_labs.real(), 0, request)
    yield own_cluster
    _remove_namespace(own_cluster)


@pytest.fixture
def faults(real_cluster: Cluster) -> Iterator[Faults]:
    """What can go wrong in `real_cluster`; all of it is undone after the test."""
    from fleet.testing.faults import Faults

    broken = Faults(real_cluster)
    yield broken
    broken.clear()


@pytest.fixture
def api_proxy(cluster: Cluster, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy in front of `cluster`, for a client that gets its kubeconfig; its plan says what goes wrong."""
    from fleet.testing.proxy import Proxy

    with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:
        yield proxy


@pytest.fixture
def git_remote(tmp_path: Path) -> GitRemote:
    """A bare git repository."""
    from fleet.testing.git import GitRemote

    return GitRemote.make(tmp_path / "remote.git")


def _create_namespace(lab: Lab, index: int, request: pytest.FixtureRequest) -> Cluster:
    """Create a namespace for a test, and return the cluster with it."""
    from fleet.errors import ResourceError
    from fleet.testing.cluster import Cluster

    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")
    cluster = Cluster(lab, lab.spec.clusters[index].name, f"{name[:40].strip('-')}-{secrets.token_hex(3)}")
    manifests = _namespace_manifests(cluster.namespace)
    try:
        for manifest in manifests:
            _api(lab, cluster.name).apply(manifest, manager="kubectl")
    except ResourceError:  # it is busy, or was broken by a test before: kubectl has more patience
        everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        lab.kubectl(cluster.name, "apply", "--server-side", "--validate=false", "--filename=-", input=everything)
    return cluster


def _namespace_manifests(namespace: str) -> list[dict[str, Any]]:
    """Return a namespace and the account that pods run as.

    Kubernetes makes the account too, and later than a test needs it.
    """
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, account]


def _remove_namespace(cluster: Cluster) -> None:
    from fleet.errors import ResourceError

    try:
        _api(cluster.lab, cluster.name).delete(_namespace_manifests(cluster.namespace)[0])
    except ResourceError:
        with contextlib.suppress(ResourceError):  # a test that broke its cluster has failed already
            cluster.kubectl("delete", "namespace", cluster.namespace, "--wait=false", "--ignore-not-found")


_apis: dict[tuple[Path, str], Api] = {}


def _api(lab: Lab, cluster: str) -> Api:
    """Return a connection to a cluster, kept for the next test: two kubectl for each take longer than many tests."""
    key = (lab.directory, cluster)
    if key not in _apis:
        _apis[key] = lab.api(lab.spec.cluster(cluster))
    return _apis[key]
