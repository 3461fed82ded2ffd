"""What is read out of the set-ups of others: names, ports, settings, places of data and certificates."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.apps.driver import Problem
from fleet.apps.etcd.found import layout
from fleet.apps.etcd.layout import Layout, read, write
from tests.operator.kept import SET_UPS, SetUp


def texts(set_up: SetUp) -> Any:
    held = {(one["kind"], one["metadata"]["name"]): one.get("data") for one in set_up.documents("default")}
    return lambda kind, name: held.get((kind, name))


def found(name: str) -> Layout:
    made = layout(SET_UPS[name].stateful(), texts(SET_UPS[name]))
    assert isinstance(made, Layout), made
    return made


@pytest.mark.parametrize("set_up", SET_UPS.values(), ids=SET_UPS)
def test_every_set_up_is_understood(set_up: SetUp) -> None:
    made = found(set_up.name)
    assert made.stateful_set == set_up.stateful_set
    assert (made.container, made.claim, made.port, made.tls) == (
        set_up.container,
        set_up.claim,
        set_up.port,
        set_up.tls,
    )
    scheme, host = ("https" if set_up.tls else "http"), set_up.host.replace("{namespace}", "default")
    assert made.client_url.startswith(f"{scheme}://{host}")
    assert made.peer_url.startswith(f"{scheme}://{host}")
    assert not [name for name in made.config if name.startswith(("initial-", "advertise-")) or name == "name"]
    assert read(write(made)) == made


def test_settings_are_kept_in_the_types_that_a_file_has_them() -> None:
    assert found("plain").config["heartbeat-interval"] == 150
    chart = found("chart").config
    assert (chart["quota-backend-bytes"], chart["auto-compaction-retention"]) == (100_000_000, "1000")
    assert chart["data-dir"] == "/bitnami/etcd/data"
    # Of its own address and the loopback on one port, only one can be bound once the first is every address.
    assert found("renamed").config["listen-client-urls"] == "http://0.0.0.0:4379"
    security = found("tls").config["client-transport-security"]
    assert security["client-cert-auth"] is True


@pytest.mark.parametrize("script", ["etcdctl member remove $ID", "sleep 5"])
def test_a_hook_is_read_where_its_script_is_in_a_config_map(script: str) -> None:
    made = SET_UPS["plain"].stateful()
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "/scripts/stop.sh"]}}}
    container["volumeMounts"].append({"name": "scripts", "mountPath": "/scripts"})
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "scripts", "configMap": {"name": "scripts"}}]
    read = layout(made, lambda kind, name: {"stop.sh": script} if name == "scripts" else None)
    assert isinstance(read, Problem if "remove" in script else Layout)


def test_certificates_are_found_in_their_secrets() -> None:
    made = found("tls")
    assert made.files == {
        "ca": ("kv-client-tls", "ca.crt"),
        "cert": ("kv-client-tls", "tls.crt"),
        "key": ("kv-client-tls", "tls.key"),
    }
    assert made.paths["key"] == "/certs/client/tls.key"


def _refused(name: str, change: Any) -> Problem:
    found = SET_UPS[name].stateful()
    change(next(one for one in found["spec"]["template"]["spec"]["containers"] if one["name"] == "etcd"))
    made = layout(found, texts(SET_UPS[name]))
    assert isinstance(made, Problem)
    return made


def test_what_cannot_be_taken_over_is_said_with_the_reason() -> None:
    def elsewhere(container: dict[str, Any]) -> None:
        container["args"] = [one.replace("/var/lib/etcd", "/tmp/etcd") for one in container["args"]]

    assert "is on no volume" in _refused("plain", elsewhere).message
    assert _refused("plain", lambda one: one.update(command=["redis-server"])).message == "no container starts etcd"
    alone = "http://localhost:2379"
    shut = _refused("plain", lambda one: one.update(args=[f"--listen-client-urls={alone}", "--data-dir=/var/lib/etcd"]))
    assert "listens to nobody" in shut.message
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "etcdctl member remove $ID"]}}}
    assert "whenever the pod stops" in _refused("plain", lambda one: one.update(lifecycle=hook)).message
    unread = _refused("plain", lambda one: one.update(args=["--config-file=/etc/etcd/etcd.yaml"]))
    assert "no ConfigMap" in unread.message
    lost = _refused("tls", lambda one: one.update(volumeMounts=one["volumeMounts"][:1]))
    assert "must come from a Secret" in lost.message
