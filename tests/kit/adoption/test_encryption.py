"""What TLS changes in a pod that others described."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kit.adoption.encryption import (
    FOLDERS,
    both_ways,
    find_plain_port,
    free_port,
    mount_certificates,
    move_probes,
    open_host,
    port_number,
    with_tls,
)


def container(**more: Any) -> dict[str, Any]:
    ports = [{"name": "client", "containerPort": 4222}, {"name": "monitor", "containerPort": 8222}]
    return {"name": "bus", "volumeMounts": [{"name": "data", "mountPath": "/data"}], "ports": ports, **more}


def test_a_url_is_known_both_ways() -> None:
    assert (
        both_ways("https://bus-0:4222") == both_ways("http://bus-0:4222") == ("http://bus-0:4222", "https://bus-0:4222")
    )
    assert with_tls("http://a:1,https://b:2") == "https://a:1,https://b:2"


def test_certificates_are_mounted_once_and_go_again() -> None:
    spec: dict[str, Any] = {"volumes": [{"name": "own", "emptyDir": {}}]}
    bus = container()
    for _ in range(2):
        mount_certificates(spec, bus, {"server": "bus-server", "peer": "bus-peer"})
    assert [volume["name"] for volume in spec["volumes"]] == ["own", "fleet-server", "fleet-peer"]
    assert [mount["mountPath"] for mount in bus["volumeMounts"]] == ["/data", FOLDERS["server"], FOLDERS["peer"]]
    assert spec["volumes"][1]["secret"] == {"secretName": "bus-server", "defaultMode": 0o444}
    mount_certificates(spec, bus, {})
    assert len(spec["volumes"]) == len(bus["volumeMounts"]) == 1


@pytest.mark.parametrize(
    ("probe", "moved"),
    [
        ({"httpGet": {"path": "/healthz", "port": "client"}, "periodSeconds": 3}, "/healthz"),
        ({"httpGet": {"port": 4222, "scheme": "HTTPS"}}, "/usual"),
        ({"exec": {"command": ["busctl", "ping"]}, "periodSeconds": 3}, "/usual"),
        ({"grpc": {"port": 4222}}, "/usual"),
        ({"httpGet": {"path": "/healthz", "port": "monitor"}}, None),
        ({"tcpSocket": {"port": 4222}}, None),
    ],
)
def test_probes_of_clients_ports_and_commands_ask_the_plain_port(probe: dict[str, Any], moved: str | None) -> None:
    bus = container(readinessProbe=probe)
    move_probes(bus, {4222}, path="/usual", port=9000)
    if moved is None:
        assert bus["readinessProbe"] == probe
        return
    assert bus["readinessProbe"]["httpGet"] == {"path": moved, "port": 9000, "scheme": "HTTP"}
    assert {"exec", "grpc"} & bus["readinessProbe"].keys() == set()
    assert bus["readinessProbe"].get("periodSeconds") == probe.get("periodSeconds")
    assert "livenessProbe" not in bus


def test_ports_have_names_or_numbers() -> None:
    assert [port_number(port, container()) for port in ("client", 7, "8", "none")] == [4222, 7, 8, None]


def test_a_port_that_nothing_names_is_free() -> None:
    template = {
        "spec": {
            "containers": [container(livenessProbe={"httpGet": {"port": 9001}, "periodSeconds": 9004})],
            "initContainers": [container(ports=[{"containerPort": 9002}])],
        }
    }
    assert free_port(9000, template, ["http://{pod}.bus:9000", "http://bus"]) == 9003
    assert free_port(4222, template, []) == 4223


def test_a_plain_port_is_open_to_the_kubelet() -> None:
    assert find_plain_port("https://0.0.0.0:1,http://127.0.0.1:2, http://0.0.0.0:3") == 3
    assert find_plain_port("") is None
    assert open_host("http://127.0.0.1:1,http://[fd00::1]:2") == "[fd00::1]"
    assert open_host("http://localhost:1,http://0.0.0.0:2") == "0.0.0.0"
