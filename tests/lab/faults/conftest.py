"""One set of pods for all tests of faults: each test leaves it as it found it, or the next one fails."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from fleet.testing import Cluster
from fleet.testing.faults import Faults
from fleet.testing.plugin import Labs
from tests.lab.faults.town import Town


@pytest.fixture(scope="package")
def town(fleet_labs: Labs) -> Iterator[Town]:
    lab = fleet_labs.real()
    cluster = Cluster(lab, lab.spec.clusters[0].name, f"town-{secrets.token_hex(3)}")
    cluster.kubectl("create", "namespace", cluster.namespace)
    found = Town(cluster)
    found.build()
    yield found
    cluster.kubectl("delete", "namespace", cluster.namespace, "--wait=false")


@pytest.fixture
def breaking(town: Town) -> Iterator[Faults]:
    faults = Faults(town.cluster)
    yield faults
    faults.clear()
