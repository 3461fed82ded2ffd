"""etcd passes the conformance suite in memory."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.simulate import EtcdServers
from fleet.testing.conformance import Case, Subject, cases
from fleet.testing.conformance.subject import change_spec, kill_pod, lose_volume

IMAGES = {"etcd": "etcd:v{version}", "fleet-operator": "fleet-operator:1"}


class SimulatedEngine(EtcdEngine):
    """The product's engine, whose connection leads to simulated servers."""

    def __init__(self, servers: EtcdServers) -> None:
        super().__init__(IMAGES)
        self._servers = servers

    async def client(self, app: Any, world: Any) -> Any:
        return self._servers


SUBJECT = Subject(
    kind="Etcd",
    spec={"version": "3.5", "members": 3, "storage": "2Gi", "tls": {"enabled": False}},
    make_servers=EtcdServers,
    make_engine=SimulatedEngine,
    changes=(
        change_spec("scale 3 → 5", members=5),
        change_spec("scale 3 → 1", members=1),
        change_spec("upgrade 3.5 → 3.6", version="3.6"),
        change_spec("heartbeat", config={"heartbeatMs": 200}),
        change_spec("storage", storage="4Gi"),
        change_spec("scale 3 → 1, volumes kept", members=1, volume={"onScaleIn": "keep"}),
        kill_pod(0),
        kill_pod(2),
        lose_volume("data-db-1"),
    ),
    minds=(
        ("scale 3 → 5", "scale 3 → 1"),
        ("scale 3 → 1", "scale 3 → 5"),
        ("upgrade 3.5 → 3.6", "scale 3 → 5"),
        ("scale 3 → 5", "heartbeat"),
        ("heartbeat", "storage"),
        ("heartbeat", "volume data-db-1 lost"),
    ),
    bad_image="etcd:broken",
    quorum=True,
)


@pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
def test_etcd_conforms(case: Case) -> None:
    case.run()
