"""The cluster with the Greeting kind in it."""

from __future__ import annotations

import pytest

from fleet.testing import Cluster
from tests.kube.runtime.greeter import DEFINITION
from tests.served import wait_served


@pytest.fixture(scope="session")
def defined() -> set[str]:
    """The clusters that have it already."""
    return set()


@pytest.fixture
def greetings(cluster: Cluster, defined: set[str]) -> Cluster:
    if cluster.name not in defined:
        cluster.apply(DEFINITION)
        wait_served(cluster, "greetings.runtime.fleet.dev")
        defined.add(cluster.name)
    return cluster
