"""The Secrets of an app that no cache shows are found by their names, on a real API server; those of others are not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fleet_operator.core import kinds
from fleet_operator.core.keys import unseen

import fleet.kube.runtime as kube
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.kit.adoption.giveback import RELEASED
from fleet.kube.runtime.handlers import label
from fleet.testing import Cluster
from tests.kube.runtime.running import eventually, running
from tests.operator.app_on_nodes import definitions
from tests.served import wait_served

LABELS = {"fleet.dev/app": "db", "fleet.dev/kind": "Etcd"}
ADOPT = {"identity": "c1", "statefulSet": "db"}


def secret(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}, "stringData": {"ca.key": "k"}}


@pytest.mark.parametrize(
    ("spec", "found"),
    [({"adopt": ADOPT}, ["db-ca"]), ({}, [])],
    ids=["taken over again", "made anew"],
)
def test_keys_that_an_app_gave_back_are_found_by_name_when_it_takes_them_over_again(
    cluster: Cluster, spec: dict[str, Any], found: list[str]
) -> None:
    cluster.kubectl("apply", "--server-side", "-f", "-", input=definitions())
    wait_served(cluster, "etcds.fleet.dev")
    cluster.apply(
        secret("db-ca", annotations={RELEASED: "Etcd/db"}),
        secret("db-server", labels=LABELS),
        secret("db-peer", annotations={RELEASED: "Etcd/another"}),
        {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "Etcd",
            "metadata": {"name": "db"},
            "spec": {"version": "3.5", **spec},
        },
    )
    seen: list[tuple[list[str], list[str]]] = []

    async def look(request: kube.Request) -> None:
        shown = request.owned(kinds.SECRETS)
        others = await unseen(request, ("db-ca", "db-server", "db-peer", "db-none"), shown)
        seen.append(([one["metadata"]["name"] for one in shown], [one["metadata"]["name"] for one in others]))

    controller = kube.Controller(
        "etcd",
        EtcdEngine({}).resource,
        look,
        watches=(kube.Watch(kinds.SECRETS, label("fleet.dev/app"), labels={"fleet.dev/kind": "Etcd"}),),
        namespace=cluster.namespace,
    )

    async def run() -> None:
        async with running(cluster, kube.Operator("tested", [controller])):
            await eventually("a pass", lambda: seen)

    asyncio.run(run())
    assert seen[0] == (["db-server"], found)
