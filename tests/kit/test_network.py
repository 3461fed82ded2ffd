"""Which addresses an app has, and how its metrics are found."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleet import Backup, Claim, Pods, Toleration
from fleet.apps import Etcd
from fleet.apps.etcd import names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.files import as_said
from fleet.errors import ConfigurationError
from fleet.install.manifests import InstallOptions, deployment
from fleet.kit.adoption import giveback
from fleet.kit.backup.jobs import labels
from fleet.kit.backup.schedule import cron_job
from fleet.kit.driver import Impact
from fleet.kit.observe.world import World
from fleet.kit.operate.teardown import torn_down
from fleet.kit.order import decide
from fleet.kit.permissions import Permissions
from fleet.kit.step import Delete, State
from fleet.kit.workload.files import revision
from fleet.kit.workload.pods import pod_template, surroundings
from fleet.model.network_settings import Access, AllowedPeer, AppMetrics, Network
from fleet.render.crd import definition
from tests.kit import nats, pair
from tests.kit.nats import NATS
from tests.kit.pair import PAIR
from tests.operator.etcd.observations import IMAGES, Drawing, app


def services(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in found if one["kind"] == "Service"}


def test_nothing_said_is_nothing_rendered() -> None:
    plain = surroundings(NATS, nats.app())
    assert surroundings(NATS, nats.app(network=Network(), metrics=AppMetrics())) == plain
    assert as_said(app(network=Network())) == as_said(app())
    assert names.server_names(app(network=Network())) == names.server_names(app())


def test_every_service_has_the_addresses_that_the_app_says() -> None:
    network = Network(ip_family_policy="RequireDualStack", ip_families=["IPv6", "IPv4"])
    found = services(surroundings(PAIR, pair.app(network=network, metrics=AppMetrics())))
    plain = services(surroundings(PAIR, pair.app()))
    said = {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    for name, one in plain.items():
        assert found[name]["spec"] == {**one["spec"], **said}, name


@pytest.mark.parametrize(
    ("network", "listens"),
    [
        (Network(ip_families=["IPv4"]), "0.0.0.0"),
        (Network(ip_family_policy="SingleStack"), "0.0.0.0"),
        (Network(ip_families=["IPv6"]), "[::]"),
        (Network(ip_family_policy="PreferDualStack"), "[::]"),
    ],
)
def test_members_listen_where_they_have_addresses(network: Network, listens: str) -> None:
    said = as_said(app(network=network))
    assert said["listen-client-urls"] == f"https://{listens}:2379"
    assert said["listen-peer-urls"] == f"https://{listens}:2380"
    assert said["listen-metrics-urls"] == f"http://{listens}:2381"
    is_new = revision(DRIVER, app(network=network)) != revision(DRIVER, app())
    assert is_new is (listens == "[::]"), "they restart for it, and for nothing else"


def test_certificates_have_the_domain_of_the_cluster() -> None:
    given = names.server_names(app(network=Network(cluster_domain="corp.example")))
    assert "db.shop.svc.corp.example" in given and "db.shop.svc.cluster.local" not in given
    assert DRIVER.classify("network.cluster_domain") is Impact.RELOAD
    assert DRIVER.classify("network.ip_families") is Impact.RESTART


@pytest.mark.parametrize(
    "said",
    [
        {"ipFamilies": ["IPv4", "IPv6"]},
        {"ipFamilies": ["IPv4", "IPv4"], "ipFamilyPolicy": "PreferDualStack"},
        {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"},
        {"ipFamilies": ["IPv5"]},
        {"clusterDomain": "not a domain"},
    ],
)
def test_the_model_refuses_addresses_that_cannot_be(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Network|ip|cluster"):
        Network.read(said)


def test_metrics_are_found_by_a_service_of_their_own() -> None:
    metrics = AppMetrics(service=True, annotations={"prometheus.io/scrape": "true"})
    found, plain = (services(surroundings(DRIVER, made)) for made in (app(metrics=metrics), app()))
    made = found.pop("db-metrics")
    assert found == plain
    assert made["metadata"]["annotations"] == {"prometheus.io/scrape": "true"}
    assert made["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": plain["db"]["spec"]["selector"],
        "ports": [{"name": "metrics", "port": 2381, "targetPort": "metrics", "protocol": "TCP"}],
    }
    assert DRIVER.classify("metrics.service") is Impact.NONE


def test_the_service_of_metrics_goes_when_git_asks_for_none() -> None:
    drawing = Drawing(app=app())
    seen = drawing.seen()
    made = services(surroundings(DRIVER, app(metrics=AppMetrics(service=True))))["db-metrics"]
    there = copy.deepcopy(made)
    seen.world.objects["Service"] = {"db-metrics": there}  # type: ignore[index]
    engine = EtcdEngine(IMAGES)
    decision = decide(engine.concerns(seen), engine.at_rest(seen))
    assert [step.object["metadata"]["name"] for step in decision.steps if isinstance(step, Delete)] == ["db-metrics"]
    asked = Drawing(app=app(metrics=AppMetrics(service=True))).seen()
    asked.world.objects["Service"] = {"db-metrics": there}  # type: ignore[index]
    assert decide(engine.concerns(asked), engine.at_rest(asked)).state is State.OK


def policies(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "NetworkPolicy"}


def test_members_let_in_each_other_the_operator_and_who_is_named() -> None:
    access = Access(
        clients=[
            AllowedPeer(namespaces={"kubernetes.io/metadata.name": "till"}, pods={"app": "till"}),
            AllowedPeer(pods={"a": "b"}),
        ],
        metrics=[AllowedPeer(addresses="192.0.2.0/24")],
    )
    made = policies(surroundings(DRIVER, app(network=Network(access=access))))["db"]
    selected = services(surroundings(DRIVER, app()))["db"]["spec"]["selector"]
    ours = {"fleet.dev/app": "db", "fleet.dev/kind": "Etcd"}
    assert made["podSelector"] == {"matchLabels": {**selected, **ours}}, "no pods of a chart that have the same names"
    template = pod_template(DRIVER, app(), "etcd:v3.5.21")
    assert made["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert made["policyTypes"] == ["Ingress"] and "egress" not in made
    everybody, clients, metrics = made["ingress"]
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "fleet-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "fleet-operator"}},
    }
    installed = deployment(InstallOptions("operator:1"))
    assert installed["metadata"]["namespace"] == "fleet-system"
    assert operator["podSelector"]["matchLabels"].items() <= installed["spec"]["template"]["metadata"]["labels"].items()
    own = {"podSelector": {"matchLabels": ours}}
    assert everybody["from"] == [own, operator]
    assert [port["port"] for port in everybody["ports"]] == [2379, 2380, 2381]
    till = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "till"}},
        "podSelector": {"matchLabels": {"app": "till"}},
    }
    assert clients["from"] == [till, {"podSelector": {"matchLabels": {"a": "b"}}}]
    assert [port["port"] for port in clients["ports"]] == [2379], "and no port of peers"
    assert metrics["from"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert [port["port"] for port in metrics["ports"]] == [2381]


def test_who_is_not_named_is_not_let_in() -> None:
    """A rule with an empty list would let everybody in."""
    made = policies(
        surroundings(PAIR, pair.app(network=Network(access=Access(metrics=[AllowedPeer(pods={"a": "b"})]))))
    )
    assert set(made) == {"cache", "cache-sentinel"}
    for spec in made.values():
        assert spec["policyTypes"] == ["Ingress"] and len(spec["ingress"]) == 1
        assert all(rule["from"] and rule["ports"] for rule in spec["ingress"])
    selectors = [spec["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for spec in made.values()]
    assert selectors == ["pair", "pair-sentinel"]


def test_a_policy_is_made_for_those_alone_that_ask() -> None:
    assert not policies(surroundings(DRIVER, app()))
    assert not policies(surroundings(DRIVER, app(network=Network(cluster_domain="corp.example"))))
    adopted = {"adopt": {"identity": "c1"}, "network": {"access": {}}, "version": "3.5"}
    manifest = {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": {"name": "db"}, "spec": adopted}
    with pytest.raises(ConfigurationError, match="taken over"):
        Etcd.from_manifest(manifest)


def test_jobs_of_the_app_are_let_in_and_their_pods_are_not_guarded() -> None:
    guarded = app(network=Network(access=Access()), backup=Backup(schedule="@daily", to=Claim("kept")))
    made = policies(surroundings(DRIVER, guarded))["db"]
    job = labels(PLAN, guarded, "backup")
    (member, _) = made["ingress"][0]["from"]
    assert member["podSelector"]["matchLabels"].items() <= job.items()
    assert not made["podSelector"]["matchLabels"].items() <= job.items()


def test_policies_go_when_no_pod_is_left_that_they_guard() -> None:
    guarded = app(network=Network(access=Access()))
    (made,) = (one for one in surroundings(DRIVER, guarded) if one["kind"] == "NetworkPolicy")
    seen = Drawing(app=guarded).seen()
    engine, pods = EtcdEngine(IMAGES), dict(seen.world.objects["Pod"])
    for left, gone in ((pods, []), ({}, ["db"])):
        world = World({"Pod": left, "NetworkPolicy": {"db": made}}, now=seen.world.now)
        decision = torn_down(engine, guarded, world)
        assert decision is not None
        assert [step.object["metadata"]["name"] for step in decision.steps if isinstance(step, Delete)] == gone
    assert torn_down(engine, guarded, World({}, now=seen.world.now)) is None
    assert "NetworkPolicy" in giveback.ORDER, "what is given back keeps its policy, which is then nobody's of ours"


def test_a_policy_that_git_asks_for_no_more_goes_before_members_are_looked_at() -> None:
    """It may be why the operator does not reach them: one that is decided on afterwards would stay for ever."""
    guarded = app(network=Network(access=Access()))
    (made,) = (one for one in surroundings(DRIVER, guarded) if one["kind"] == "NetworkPolicy")
    other = {**made, "metadata": {**made["metadata"], "name": "written-by-hand"}}
    leaving = {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}}
    engine = EtcdEngine(IMAGES)
    for wanted, found, gone in ((app(), made, ["db"]), (app(), leaving, []), (guarded, made, [])):
        seen = Drawing(app=wanted).seen()
        seen.world.objects["NetworkPolicy"] = {"db": found, "written-by-hand": other}  # type: ignore[index]
        assert [one["metadata"]["name"] for one in engine.hindrances(wanted, seen.world)] == gone
    assert DRIVER.classify("network.access") is Impact.NONE


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"pods": {"a": "b"}, "addresses": "192.0.2.0/24"},
        {"addresses": "everywhere"},
        {"addresses": "192.0.2.7"},
        {"addresses": "10.0.0.0/255.0.0.0"},
    ],
)
def test_the_model_refuses_a_peer_that_is_nobody_or_two(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="AllowedPeer"):
        AllowedPeer.read(said)


def test_a_type_without_a_port_for_metrics_offers_no_such_service() -> None:
    wanted = pair.app(metrics=AppMetrics(service=True))
    assert [problem.field for problem in PAIR.validate(wanted)] == ["metrics.service"]
    assert surroundings(PAIR, wanted) == surroundings(PAIR, pair.app())
    rules = definition(PAIR)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    assert "Pair has no port for metrics" in [rule["message"] for rule in rules]
    assert NATS.validate(nats.app(metrics=AppMetrics(service=True))) == []


def test_the_operator_writes_no_annotation_of_fleets_own_at_that_service() -> None:
    """Past the model and the API server."""
    metrics = AppMetrics.model_construct(service=True, annotations={"fleet.dev/released": "x"})
    wanted = app().model_copy(update={"metrics": metrics})
    engine, drawing = EtcdEngine(IMAGES, Permissions()), Drawing(app=wanted, ran=app())
    seen = engine.judged(drawing.seen())
    assert "db-metrics" not in services(engine.surroundings(wanted, seen.world, seen.world.now))
    assert decide(engine.concerns(seen), engine.at_rest(seen)).reason == "NotAllowed"


def test_pods_of_backups_are_pulled_and_run_where_members_are() -> None:
    """They have members' image, and with a backup of files their volumes."""
    pods = Pods(
        node_selector={"disk": "ssd"},
        tolerations=[Toleration("dedicated", operator="Exists")],
        pull_secrets=["registry"],
        labels={"team": "shop"},
    )
    backup = Backup(schedule="@daily", to=Claim("backups"))
    given = {"image": "etcd:3.5", "operator_image": "fleet", "version": "3.5", "identity": "c1"}
    said, plain = (
        cron_job(PLAN, made, backup, **given)["spec"]["jobTemplate"]["spec"]["template"]
        for made in (app(backup=backup, pods=pods), app(backup=backup))
    )
    assert said["metadata"] == plain["metadata"]
    assert said["spec"] == {
        **plain["spec"],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
    }
