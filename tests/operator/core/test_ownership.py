"""Taking an object over, against a real API server: only as it was looked at."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from fleet_operator.core import kinds
from fleet_operator.core.ownership import taken

from fleet.kit.step import NotYetError, Take
from fleet.kube.client.client import Client
from fleet.kube.objects import get
from fleet.kube.runtime.writer import Writer
from fleet.names import OPERATOR
from fleet.testing import Cluster
from tests.operator.existing_setups import SET_UPS


def test_what_changed_since_it_was_looked_at_is_not_taken(cluster: Cluster) -> None:
    text = yaml.safe_dump(SET_UPS["plain"].stateful(cluster.namespace))
    cluster.kubectl("apply", "--server-side", "--field-manager=somebody", "-f", "-", input=text)
    strategy = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}}

    async def take(meanwhile: str) -> dict[str, Any]:
        async with Client.of(cluster.kubeconfig, cluster.context) as client:
            seen = await get(client, kinds.STATEFUL_SETS, cluster.namespace, "etcd")
            assert seen is not None
            if meanwhile:
                cluster.kubectl("label", "statefulset", "etcd", meanwhile)
            manifest = {"metadata": {"name": "etcd", "namespace": cluster.namespace}, "spec": strategy}
            request: Any = SimpleNamespace(client=client, write=Writer(client, OPERATOR, ()))
            await taken(request, Take({"kind": "StatefulSet", **seen}, manifest))
            found = await get(client, kinds.STATEFUL_SETS, cluster.namespace, "etcd")
            assert found is not None
            return found

    with pytest.raises(NotYetError):
        asyncio.run(take("changed=yes"))
    assert cluster.get("statefulset/etcd")["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0) == 0
    for _ in range(10):  # its controller says how it is at about the same time
        try:
            found = asyncio.run(take(""))
        except NotYetError:
            continue
        assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3
        return
    raise AssertionError("it was never taken")
