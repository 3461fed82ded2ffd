"""Real nodes with the operator beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster
from tests.operator.app_on_nodes import App, unattended_app
from tests.operator.etcd.under_test import ETCD


@pytest.fixture
def unattended(real_cluster: Cluster, tmp_path: Path) -> Iterator[App]:
    """An app that is not there yet, in a cluster that knows its kind. Nobody looks after it."""
    with unattended_app(real_cluster, tmp_path, ETCD) as app:
        yield app


@pytest.fixture
def app(unattended: App) -> App:
    """An app that is not there yet, and the operator beside it."""
    unattended.cluster.images("etcd")
    unattended.operator.start()
    return unattended
