"""What an app says of its pods and of how it is reached, on real nodes; and a change rolls one at a time."""

from __future__ import annotations

import ssl
from itertools import pairwise

import pytest

from fleet.testing.traffic import MemberAddress
from tests.operator.app_on_nodes import App
from tests.operator.writer import lost

pytestmark = pytest.mark.timeout(600)
NAME, PORT = "etcd.example.test", 31379


def test_an_etcd_runs_where_and_beside_what_git_says_and_is_reached_from_outside(app: App) -> None:
    nodes = [node["metadata"]["name"] for node in app.api.get("/api/v1/nodes")["items"]]
    for node in nodes:
        app.cluster.kubectl("label", "node", node, "example.com/disk=ssd", "--overwrite")
    app.want(
        version="3.5",
        members=3,
        pods={
            "nodeSelector": {"example.com/disk": "ssd"},
            "tolerations": [{"key": "dedicated", "value": "databases", "effect": "NoSchedule"}],
            "spread": [{"over": "kubernetes.io/hostname", "required": True}],
            "labels": {"team": "shop"},
            "sidecars": [
                {
                    "name": "beside",
                    "image": app.engine.image.format(series="3.5", version="3.5", tag="3.5"),
                    "command": ["etcd"],
                    "arguments": [
                        "--data-dir=/scratch/x",
                        "--listen-client-urls=http://127.0.0.1:3379",
                        "--advertise-client-urls=http://127.0.0.1:3379",
                        "--listen-peer-urls=http://127.0.0.1:3380",
                    ],
                    "scratch": ["/scratch"],
                    "connection": "/connection",
                }
            ],
            "overrides": {
                "terminationGracePeriodSeconds": 20,
                "hostAliases": [{"ip": "192.0.2.7", "hostnames": ["x"]}],
            },
        },
        expose={"type": "NodePort", "nodePorts": [{"number": PORT}], "names": [NAME]},
    )
    app.wait_ready()
    for pod in app.pods().values():
        spec = pod["spec"]
        assert spec["nodeSelector"] == {"example.com/disk": "ssd"}
        assert {"key": "dedicated", "operator": "Equal", "value": "databases", "effect": "NoSchedule"} in (
            spec["tolerations"]
        )
        assert [container["name"] for container in spec["containers"]] == ["etcd", "beside"]
        assert all(status["ready"] for status in pod["status"]["containerStatuses"])
        assert (spec["terminationGracePeriodSeconds"], spec["hostAliases"][0]["ip"]) == (20, "192.0.2.7")
        assert pod["metadata"]["labels"]["team"] == "shop"
    where = [pod["spec"]["nodeName"] for pod in app.pods().values()]
    assert abs(where.count(where[0]) - (len(where) - where.count(where[0]))) <= 1 or len(nodes) != 2
    budget = app.api.get(f"/apis/policy/v1/namespaces/{app.namespace}/poddisruptionbudgets/{app.name}")
    assert (budget["status"]["currentHealthy"], budget["status"]["disruptionsAllowed"]) == (3, 1)
    numbers = _reach_from_outside(app)
    _change_a_label(app)
    app.has_all(numbers)
    assert app.condition("CertificatesValid")["status"] == "True"


def _reach_from_outside(app: App) -> frozenset[int]:
    """By a port of a node and by a name that only git says: a client writes, and finds what it wrote."""
    found = app.api.get("/api/v1/nodes")["items"][0]["status"]["addresses"]
    address = next(one["address"] for one in found if one["type"] == "InternalIP")
    outside = MemberAddress(address, NAME, PORT)
    context = app.tls()
    assert context is not None and context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    with app.writer_to([outside]) as writer:
        app.wait("writes are acknowledged", lambda: len(writer.acknowledged) > 20, 60)
        numbers = writer.stop()
    assert not lost(app.engine.traffic, numbers, outside, context)
    return numbers


def _change_a_label(app: App) -> None:
    """All members restart for it, each when the one before it was ready again."""
    before, first = app.uids(), dict[str, str]()

    def rolled() -> bool:
        for uid, since in app.ready_since().values():
            first.setdefault(uid, since)
        return app.is_ready() and not set(app.uids().values()) & set(before.values())

    app.change(pods={"labels": {"team": "till"}})
    app.wait("a change of labels rolls", rolled)
    pods = sorted((pod["metadata"] for pod in app.pods().values()), key=lambda own: str(own["creationTimestamp"]))
    assert {own["labels"]["team"] for own in pods} == {"till"}
    for earlier, later in pairwise(pods):
        assert first[earlier["uid"]] <= later["creationTimestamp"]
