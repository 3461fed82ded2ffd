"""Which addresses an app has, and how its metrics are found."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleet import Backup, Claim, Pods, Toleration
from fleet.apps.etcd import names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.files import as_said
from fleet.kit.backup.schedule import cron_job
from fleet.kit.driver import Impact
from fleet.kit.order import decide
from fleet.kit.permissions import Permissions
from fleet.kit.step import Delete, State
from fleet.kit.workload.files import revision
from fleet.kit.workload.pods import surroundings
from fleet.model.network_settings import AppMetrics, Network
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
