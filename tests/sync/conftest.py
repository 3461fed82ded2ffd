"""A repository on two real clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster, GitRemote
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
