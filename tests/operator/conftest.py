"""Real nodes with the operator beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster
from tests.operator.e2e import App, Operator, definitions, release, say_nothing_secret
from tests.served import wait_served


@pytest.fixture
def unattended(real_cluster: Cluster, tmp_path: Path) -> Iterator[App]:
    """An app that is not there yet, in a cluster that knows its kind. Nobody looks after it."""
    real_cluster.kubectl("apply", "--server-side", "-f", "-", input=definitions())
    wait_served(real_cluster, "etcds.fleet.dev")
    operator = Operator(real_cluster, tmp_path / "operator.log")
    try:
        yield App(real_cluster, operator)
        say_nothing_secret(real_cluster, operator.log)
    finally:
        try:
            operator.stop()
        finally:
            release(real_cluster)


@pytest.fixture
def app(unattended: App) -> App:
    """An app that is not there yet, and the operator beside it."""
    unattended.cluster.images("etcd")
    unattended.operator.start()
    return unattended
