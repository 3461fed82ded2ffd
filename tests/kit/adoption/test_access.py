"""How members of others are reached."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kit.adoption.access import (
    check_urls,
    find_advertised,
    find_certificates,
    find_listener,
    host_by_service,
    listen_alike,
    split_address,
)
from fleet.kit.adoption.workload import Process
from fleet.kit.driver import Problem


@pytest.mark.parametrize(
    ("urls", "alike"),
    [
        ("http://{ip}:4222", "http://0.0.0.0:4222"),
        ("http://{pod}.bus:4222", "http://0.0.0.0:4222"),
        ("http://{ip}:4222,http://127.0.0.1:4222", "http://0.0.0.0:4222"),
        ("http://{ip}:4222,http://127.0.0.1:4223", "http://0.0.0.0:4222,http://127.0.0.1:4223"),
        ("http://10.0.0.1:4222", "http://10.0.0.1:4222"),
    ],
)
def test_members_listen_at_the_same_addresses(urls: str, alike: str) -> None:
    assert listen_alike(urls) == alike


@pytest.mark.parametrize(
    ("urls", "listener"),
    [
        ("http://127.0.0.1:4222, https://{ip}:4223", ("https", 4223)),
        ("http://0.0.0.0", ("http", 9999)),
        ("http://localhost:4222", None),
        ("unix:///run/bus", None),
        ("", None),
    ],
)
def test_clients_from_elsewhere_come_by_the_first_listener_that_lets_them(urls: str, listener: Any) -> None:
    assert find_listener(urls, 9999) == listener


@pytest.mark.parametrize(
    ("urls", "advertised"),
    [
        ("http://{ip}:1, http://{pod}.bus:1", "http://{pod}.bus:1"),
        ("http://{pod}.$DOMAIN:1", ""),
        ("http://{pod}.{ip}:1", ""),
    ],
)
def test_a_member_is_known_by_its_pod_alone(urls: str, advertised: str) -> None:
    assert find_advertised(urls) == advertised


def test_what_is_no_url_is_a_problem() -> None:
    assert check_urls({"listen": "http://0.0.0.0:1,http://[::1]:2"}, ("listen", "other")) is None
    problem = check_urls({"listen": "http://0.0.0.0:1,0.0.0.0:2"}, ("listen",))
    assert problem is not None and (problem.field, problem.message) == ("listen", "0.0.0.0:2 is no URL")
    assert split_address("http://bus:notaport") == ("", 0)


def test_members_have_a_name_by_their_headless_service() -> None:
    found: dict[str, Any] = {"metadata": {"name": "bus", "namespace": "shop"}, "spec": {"serviceName": "bus-peers"}}
    assert host_by_service(found) == "{pod}.bus-peers.shop.svc"
    assert host_by_service({**found, "spec": {}}) == "{pod}.bus.shop.svc"


def test_certificates_come_from_secrets() -> None:
    mounts = [{"name": "tls", "mountPath": "/tls"}, {"name": "conf", "mountPath": "/conf"}]
    volumes = [
        {"name": "tls", "secret": {"secretName": "bus-tls"}},
        {"name": "conf", "configMap": {"name": "bus-conf"}},
    ]
    pod = {"containers": [{"name": "bus", "volumeMounts": mounts}], "volumes": volumes}
    found: dict[str, Any] = {"spec": {"template": {"spec": pod}}}
    process = Process("bus", "busd", (), {})
    files = find_certificates(found, process, {"ca": ("tls-ca", "/tls/ca.crt")})
    assert not isinstance(files, Problem)
    file, path = files["ca"]
    assert (file.name, file.key, path) == ("bus-tls", "ca.crt", "/tls/ca.crt")
    for path in ("/conf/ca.crt", "", "/elsewhere"):
        problem = find_certificates(found, process, {"ca": ("tls-ca", path)})
        assert isinstance(problem, Problem) and "must come from a Secret" in problem.message
