"""What an app may not say of its pods, on a real API server: refused by the definition's own rules, past the model."""

from __future__ import annotations

import json
from typing import Any

from fleet.apps import Etcd
from fleet.apps.etcd.driver import DRIVER
from fleet.errors import ResourceError
from fleet.kit.workload.pods import surroundings
from fleet.testing import Cluster
from tests.kit.escalations import EXPOSED_IN_VAIN, OUT_OF_BOUNDS, REFUSED, SIDECAR
from tests.render.test_crds_served import etcd, served

__all__ = ["served"]


def _tried(cluster: Cluster, **spec: Any) -> str:
    """Return what the API server says against an object, of which no client has looked at the fields."""
    text = json.dumps(etcd("tried", **spec))
    try:
        return cluster.kubectl("create", "--dry-run=server", "--validate=false", "-f", "-", input=text)
    except ResourceError as refused:
        return f"refused: {refused.message}"


def test_the_api_server_refuses_what_would_escalate(served: Cluster) -> None:
    for said, words in REFUSED:
        answer = _tried(served, pods=said)
        assert answer.startswith("refused:") and words in answer, (said, answer)


def test_the_api_server_refuses_what_makes_no_sense(served: Cluster) -> None:
    for said in OUT_OF_BOUNDS:
        assert _tried(served, pods=said).startswith("refused:"), said
    taken = "taken over: their pods stay as they were found"
    assert taken in _tried(served, adopt={"identity": "c1"}, pods={"labels": {"team": "shop"}})
    named = "what fleet's own containers are called"
    assert named in _tried(served, pods={"sidecars": [{**SIDECAR, "name": "etcd"}]})


def test_a_field_that_nobody_knows_is_not_kept(served: Cluster) -> None:
    said = {"nodeTakeover": True, "overrides": {"nodeTakeover": True, "schedulerName": "packer"}}
    text = json.dumps(etcd("tried", pods=said))
    served.kubectl("create", "--validate=false", "-f", "-", input=text)
    assert served.get("etcd", "tried")["spec"]["pods"] == {"overrides": {"schedulerName": "packer"}}


def test_what_may_be_said_is_taken_as_it_is(served: Cluster) -> None:
    pods = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "value": "databases", "effect": "NoExecute", "seconds": 60}],
        "affinity": {
            "nodes": [{"key": "disk", "values": ["ssd"]}, {"key": "cpus", "operator": "Gt", "values": ["8"]}],
            "apart": [{"labels": {"app": "batch"}, "required": True}],
        },
        "spread": [{"over": "topology.kubernetes.io/zone", "required": True}, {"over": "rack"}],
        "priorityClass": "databases",
        "pullSecrets": ["registry"],
        "labels": {"team": "shop", "example.com/cost-center": "7"},
        "annotations": {"prometheus.io/scrape": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        "sidecars": [{**SIDECAR, "env": {"LEVEL": "info"}, "scratch": ["/tmp"], "connection": "/etc/app"}],
        "overrides": {
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["10.0.0.10"]},
            "securityContext": {"runAsUser": 1000, "fsGroupChangePolicy": "OnRootMismatch"},
        },
    }
    served.apply(etcd("db", pods=pods))
    live = Etcd.from_manifest(served.get("etcd", "db"))
    assert live.pods is not None
    assert live.pods == Etcd.from_manifest({**etcd("db", pods=pods)}).pods

    served.apply(etcd("plain"))
    assert "pods" not in served.get("etcd", "plain")["spec"], "nothing is filled in where nothing is said"


def test_the_api_server_refuses_an_exposure_that_comes_to_nothing(served: Cluster) -> None:
    for said, words in EXPOSED_IN_VAIN:
        if words in ("externalIPs", "loadBalancerIP"):
            continue  # no field of ours: what nobody knows is not kept
        answer = _tried(served, expose=said, tls={"enabled": False})
        assert answer.startswith("refused:") and words in answer, (said, answer)
    assert "Services stay as they were found" in _tried(served, adopt={"identity": "c1"}, expose={"type": "NodePort"})
    served.apply(etcd("open", expose={"type": "NodePort", "nodePorts": [{"number": 30379}], "names": ["db.test"]}))
    assert served.get("etcd", "open")["spec"]["expose"]["nodePorts"] == [{"number": 30379, "port": "client"}]


def test_the_api_server_refuses_addresses_and_metrics_that_cannot_be(served: Cluster) -> None:
    both = ["IPv4", "IPv6"]
    for network in (
        {"ipFamilies": both},
        {"ipFamilies": both, "ipFamilyPolicy": "SingleStack"},
        {"ipFamilies": ["IPv4", "IPv4"], "ipFamilyPolicy": "PreferDualStack"},
        {"ipFamilies": ["IPv5"]},
        {"clusterDomain": "not a domain"},
    ):
        assert _tried(served, network=network).startswith("refused:"), network
    for peer in (
        {},
        {"pods": {"a": "b"}, "addresses": "192.0.2.0/24"},
        {"addresses": "everywhere"},
        {"addresses": "192.0.2.7"},
    ):
        assert _tried(served, network={"access": {"clients": [peer]}}).startswith("refused:"), peer
    access = {"clients": [{"pods": {"a": "b"}}, {"addresses": "192.0.2.0/24"}], "metrics": [{"namespaces": {"a": "b"}}]}
    assert not _tried(served, network={"access": access}).startswith("refused:")
    assert "taken over" in _tried(served, adopt={"identity": "c1"}, network={"access": {}})
    assert "must name pods, namespaces or both" in _tried(served, network={"access": {"clients": [{}]}})
    assert "a Service that is not made" in _tried(served, metrics={"annotations": {"team": "shop"}})
    own = {"service": True, "annotations": {"fleet.dev/released": "x"}}
    assert "fleet or Kubernetes writes itself" in _tried(served, metrics=own)
    for field, said in (("network", {"clusterDomain": "corp.example"}), ("metrics", {"service": True})):
        assert "taken over" in _tried(served, adopt={"identity": "c1"}, **{field: said})
        assert not _tried(served, **{field: said}).startswith("refused:")


def test_the_api_server_takes_the_policy_of_an_app_as_it_is_rendered(served: Cluster) -> None:
    """Takes it, and no more: the network of these clusters enforces no policies."""
    peers = [
        {"pods": {"app": "shop"}, "namespaces": {"kubernetes.io/metadata.name": "shop"}},
        {"addresses": "192.0.2.0/24"},
        {"addresses": "2001:db8::/32"},
    ]
    for name, access in (("named", {"clients": peers, "metrics": peers[:1]}), ("nobody", {})):
        served.apply(etcd(name, network={"access": access}))
        app = Etcd.from_manifest(served.get("etcd", name))
        (policy,) = (made for made in surroundings(DRIVER, app) if made["kind"] == "NetworkPolicy")
        served.apply(policy)
        live = served.get("networkpolicy", name)
        assert live["spec"] == policy["spec"], "nothing is dropped or filled in, so it is not written again and again"
