"""A limit that is too low for several clusters is raised, and a higher one stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.lab.cluster.cgroups import ENOUGH_INSTANCES, INOTIFY_LIMIT, raise_inotify_limit
from fleet.testing import Cluster


@pytest.mark.parametrize(
    ("was", "becomes"), [("128\n", str(ENOUGH_INSTANCES)), ("8192\n", "8192\n"), ("what?", "what?")]
)
def test_only_a_low_limit_is_raised(tmp_path: Path, was: str, becomes: str) -> None:
    limit = tmp_path / "limit"
    limit.write_text(was)
    raise_inotify_limit(limit)
    assert limit.read_text() == becomes


def test_where_it_may_not_be_changed_it_stays(tmp_path: Path) -> None:
    raise_inotify_limit(tmp_path)


@pytest.mark.real_nodes
def test_a_machine_with_real_nodes_allows_enough(real_cluster: Cluster) -> None:
    assert int(INOTIFY_LIMIT.read_text()) >= ENOUGH_INSTANCES
