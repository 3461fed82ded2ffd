"""How an app is reached: its Service as it is rendered, names in certificates, and what is refused by whom."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509

from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.secrets import secrets
from fleet.apps.etcd.spec import Etcd
from fleet.errors import ConfigurationError
from fleet.kit.driver import Impact
from fleet.kit.observe.world import World, secret_data
from fleet.kit.order import decide
from fleet.kit.permissions import Permissions
from fleet.kit.step import Decision, State
from fleet.kit.workload.pods import surroundings
from fleet.model.app_settings import TLS
from fleet.model.base import FrozenMap
from fleet.model.network_settings import Expose, NodePort
from fleet.model.resource import Adopt, Options
from tests.kit import nats, pair
from tests.kit.escalations import EXPOSED_IN_VAIN
from tests.kit.nats import NATS
from tests.kit.pair import PAIR
from tests.operator.etcd.observations import IMAGES, Drawing, app

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def service(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for one in found if (one["kind"], one["metadata"]["name"]) == ("Service", name))


def test_nothing_said_is_nothing_rendered() -> None:
    assert surroundings(NATS, nats.app(expose=Expose())) == surroundings(NATS, nats.app())


def test_a_service_is_as_the_app_says() -> None:
    expose = Expose(
        type="LoadBalancer",
        annotations={"service.beta.kubernetes.io/aws-load-balancer-internal": "true"},
        node_ports=[NodePort(30422)],
        source_ranges=["192.0.2.0/24"],
        load_balancer_class="example.com/internal",
        traffic_policy="Local",
    )
    found = surroundings(NATS, nats.app(expose=expose))
    made, plain = service(found, "bus"), service(surroundings(NATS, nats.app()), "bus")
    assert made["metadata"]["annotations"] == {"service.beta.kubernetes.io/aws-load-balancer-internal": "true"}
    (port,) = plain["spec"]["ports"]
    assert made["spec"] == {
        "selector": plain["spec"]["selector"],
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "loadBalancerClass": "example.com/internal",
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
        "ports": [{**port, "nodePort": 30422}],
    }
    others = [one for one in found if one is not made]
    assert others == [one for one in surroundings(NATS, nats.app()) if one != plain], "and no other Service"


def test_the_service_that_is_called_as_the_app_is_the_one() -> None:
    expose = Expose(type="NodePort", node_ports=[NodePort(30379)])
    found = surroundings(PAIR, pair.app(expose=expose))
    exposed = [one["metadata"]["name"] for one in found if "type" in one["spec"]]
    assert exposed == ["cache"]


def test_members_show_clients_outside_the_names_that_these_use() -> None:
    wanted = app(expose=Expose(names=["db.example.com", "*.db.example.com", "192.0.2.7", "2001:db8::7"]))
    made = {one["metadata"]["name"]: one for one in secrets(wanted, World({}), NOW)}
    server, peer = (
        x509.load_pem_x509_certificate(secret_data(made[name])["tls.crt"])
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
        for name in ("db-server", "db-peer")
    )
    assert {"db.example.com", "*.db.example.com", "db.shop.svc"} <= set(server.get_values_for_type(x509.DNSName))
    addresses = set(server.get_values_for_type(x509.IPAddress))
    assert {ip_address("192.0.2.7"), ip_address("2001:db8::7"), ip_address("127.0.0.1")} <= addresses
    assert "db.example.com" not in peer.get_values_for_type(x509.DNSName), "no client comes to a peer port"


def test_another_name_is_in_a_certificate_at_once_and_restarts_nobody() -> None:
    plain = {one["metadata"]["name"]: one for one in secrets(app(), World({}), NOW)}
    world = World.of(plain.values(), None, NOW)
    again = {one["metadata"]["name"]: one for one in secrets(app(), world, NOW)}
    assert again["db-server"] == plain["db-server"], "which is kept while nothing is said"
    named = {one["metadata"]["name"]: one for one in secrets(app(expose=Expose(names=["x.test"])), world, NOW)}
    assert named["db-server"] != plain["db-server"]
    assert {name for name in plain if plain[name] != named[name]} == {"db-server"}


def test_what_a_change_costs_is_a_reload_at_most() -> None:
    before, after = nats.app(), nats.app(expose=Expose(type="NodePort"))
    assert [NATS.classify(field) for field in NATS.changed(before, after)] == [Impact.RELOAD]
    further = nats.app(expose=Expose(type="NodePort", node_ports=[NodePort(30422)]))
    assert [NATS.classify(field) for field in NATS.changed(after, further)] == [Impact.NONE]
    assert NATS.classify("expose.names") is Impact.RELOAD


@pytest.mark.parametrize(("said", "words"), EXPOSED_IN_VAIN, ids=lambda value: str(value)[:60])
def test_the_model_refuses_what_comes_to_nothing(said: dict[str, Any], words: str) -> None:
    try:
        expose = Expose.read(said)
    except ValueError as refused:
        assert not words or re.search(re.escape(words), str(refused))
        return
    problems = DRIVER.validate(Etcd("db", version="3.5", tls=TLS(enabled=False), expose=expose))
    assert words in str(problems[0])


def test_a_service_that_was_taken_over_stays_as_it_was_found() -> None:
    with pytest.raises(ConfigurationError, match="their Services stay as they were found"):
        Etcd("db", version="3.5", opts=Options(adopt=Adopt(identity="c1")), expose=Expose(type="NodePort"))


def decided(drawing: Drawing, allowed: Permissions) -> Decision:
    engine = EtcdEngine(IMAGES, allowed)
    seen = engine.judged(drawing.seen())
    return decide(engine.concerns(seen), engine.at_rest(seen))


@pytest.mark.parametrize(
    ("kind", "allowed", "opened"),
    [
        ("ClusterIP", (), True),
        ("NodePort", (), False),
        ("LoadBalancer", ("NodePort",), False),
        ("NodePort", ("NodePort",), True),
        ("LoadBalancer", ("*",), True),
    ],
)
def test_the_operators_owner_says_what_is_opened_to_more_than_the_cluster(
    kind: Any, allowed: tuple[str, ...], opened: bool
) -> None:
    wanted, policy = app(expose=Expose(type=kind, names=["db.example.com"])), Permissions(services=allowed)
    engine, nothing = EtcdEngine(IMAGES, policy), World({}, now=NOW)
    made = service(engine.surroundings(wanted, nothing, NOW), "db")
    assert made["spec"].get("type", "ClusterIP") == (kind if opened else "ClusterIP"), "clients inside are served"
    decision = decided(Drawing(app=wanted, ran=app()), policy)
    assert (decision.state is State.OK) is opened
    if not opened:
        assert decision.reason == "NotAllowed" and f"--allow-service {kind}" in decision.message
        there = World.of([made], None, NOW)
        kept = [one for one in engine.surroundings(wanted, there, NOW) if one["kind"] == "Service"]
        assert [one["metadata"]["name"] for one in kept] == ["db-peers"], "a Service that there is stays as it is"


def test_the_operator_writes_no_annotation_that_is_not_an_apps() -> None:
    """Past the model and the API server."""
    expose = Expose().model_copy(update={"annotations": FrozenMap({"fleet.dev/released": "x"})})
    wanted, policy = app().model_copy(update={"expose": expose}), Permissions(services=("*",))
    made = service(EtcdEngine(IMAGES, policy).surroundings(wanted, World({}, now=NOW), NOW), "db")
    assert "annotations" not in made["metadata"]
    decision = decided(Drawing(app=wanted, ran=app()), policy)
    assert (decision.state, decision.reason) == (State.BLOCKED, "NotAllowed")


@pytest.mark.parametrize(
    "spec", [{"names": ["x.test"]}, {"type": "NodePort", "node_ports": [NodePort(30000, port="peer")]}]
)
def test_the_operator_says_what_comes_to_nothing(spec: dict[str, Any]) -> None:
    wanted = app(expose=Expose(**spec), tls=TLS(enabled=False))
    assert decided(Drawing(app=wanted, ran=app(tls=TLS(enabled=False))), Permissions(services=("*",))).state is (
        State.BLOCKED
    )


def test_a_refused_service_stops_no_repair() -> None:
    drawing = Drawing(app=app(expose=Expose(type="NodePort"), members=5), ran=app())
    assert decided(drawing, Permissions()).reason == "ScalingOut"
