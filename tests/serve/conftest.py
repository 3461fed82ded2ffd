"""A repository on two real clusters, and `fleet serve` as a process of its own that follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster, GitRemote
from tests.serve.pulling_clusters import Pulled
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository


@pytest.fixture
def repository(
    clusters: Callable[[int], list[Cluster]],
    git_remote: GitRemote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FleetRepository]:
    made = FleetRepository(tmp_path / "repository", clusters(2), capsys, monkeypatch, git_remote)
    yield made
    made.take_away()


@pytest.fixture
def served(repository: FleetRepository, tmp_path: Path) -> Iterator[Served]:
    made = Served(repository, tmp_path)
    yield made
    made.kill()


@pytest.fixture(params=["push", "pull"])
def either(repository: FleetRepository, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """The service that reaches the clusters, and one whose clusters' agents pull."""
    made = Served(repository, tmp_path) if request.param == "push" else Pulled(repository, tmp_path)
    yield made
    made.kill()
