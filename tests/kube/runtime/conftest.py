"""The cluster with the Greeting kind in it."""

from __future__ import annotations

import pytest

from fleet.testing import Cluster
from tests.kube.runtime.greeter import DEFINITION


@pytest.fixture
def greetings(cluster: Cluster) -> Cluster:
    cluster.apply(DEFINITION)
    cluster.kubectl("wait", "--for=condition=Established", "crd/greetings.runtime.fleet.dev")
    return cluster
