"""`fleet sync` itself, killed at a request: the next one converges, and nothing is left over or lost.

`FLEET_EVERY_CRASH=1` kills at every single request; without it a sample is taken.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fleet.testing.proxy import Proxy
from tests.sync.fleet_repository import FleetRepository, config_map

BEFORE = (
    config_map("same", {"a": "1"}),
    config_map("changed", {"a": "1", "gone": "1"}),
    config_map("deleted", {"a": "1"}),
)
AFTER = (
    config_map("same", {"a": "1"}),
    config_map("changed", {"a": "2"}),
    config_map("created", {"a": "1"}),
)
DATA = {"same": {"a": "1"}, "changed": {"a": "2"}, "created": {"a": "1"}, "deleted": None}


@pytest.mark.timeout(1800)
def test_a_killed_sync_is_finished_by_the_next(repository: FleetRepository, tmp_path: Path) -> None:
    eu, _ = repository.clusters
    repository.wants(*BEFORE)
    before = repository.commit()
    repository.wants(*AFTER)
    after = repository.commit()
    eu.kubectl("create", "namespace", repository.namespace)
    eu.kubectl("-n", repository.namespace, "create", "configmap", "stranger", "--from-literal=whose=theirs")
    with Proxy(eu.kubeconfig, eu.context, tmp_path) as proxy:
        options = ["--no-status", "--cluster", eu.name, "--kubeconfig", str(proxy.kubeconfig), "--revision"]
        assert repository.sync(*options, before).code == 0
        proxy.requests.clear()
        assert repository.sync(*options, after).code == 0
        total = len(proxy.requests)
        every = range(1, total + 1) if os.environ.get("FLEET_EVERY_CRASH") else range(3, total + 1, max(1, total // 5))
        command = [sys.executable, "-m", "fleet", "sync", *options, after]
        kills = 0
        for k in every:
            assert repository.sync(*options, before).code == 0
            kills += proxy.run(command, kill_at=k).returncode == -9
            done = repository.sync(*options, after)
            assert done.code == 0, done.err
            assert {name: repository.data(eu, name) for name in DATA} == DATA
            assert repository.sync("--expect-no-changes", *options, after).code == 0
    assert kills >= len(every) - 2, "requests are concurrent, so a run may need one or two fewer than the one counted"
    assert repository.data(eu, "stranger") == {"whose": "theirs"}
