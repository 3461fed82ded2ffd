"""What is read out of the set-ups of others: names, ports, settings, places of data and certificates."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from fleet.apps.etcd.found import layout
from fleet.apps.etcd.layout import Layout, read, write
from fleet.kit.driver import Problem
from tests.operator.existing_setups import SET_UPS, SetUp


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


def _started(*command: str, **more: Any) -> Layout | Problem:
    """The plain set-up with another command, and whatever else its container is to have."""
    found = SET_UPS["plain"].stateful()
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container.update(command=list(command), args=[], env=more.pop("env", []), **more)
    return layout(found, texts(SET_UPS["plain"]))


NEEDED = "--data-dir=/var/lib/etcd --listen-client-urls=http://0.0.0.0:2379"
SCRIPTS = {
    "mkdir": f"mkdir -p /var/lib/etcd && exec etcd {NEEDED}",
    "chown": f"chown -R 1000:1000 /var/lib/etcd; exec etcd {NEEDED}",
    "echo": f"echo starting etcd; etcd {NEEDED}",
    "a comment": f"# start etcd, don't stop\nexec etcd {NEEDED}",
    "another user": f"exec gosu etcd etcd {NEEDED}",
    "a default": "exec etcd --data-dir=/var/lib/etcd --listen-client-urls=http://0.0.0.0:${CLIENT_PORT:-2379}",
    "an address": "IP=$(hostname -i)\nexec etcd --data-dir=/var/lib/etcd --listen-client-urls=http://$IP:2379",
    "its own variables": f"export ETCD_DATA_DIR=/var/lib/etcd; ETCD_LISTEN_PEER_URLS=http://0.0.0.0:2380 etcd {NEEDED}",
    "what others print": f"exec etcd --name=$(cat /x | cut -d- -f1) {NEEDED}",
    "two ways of one": f"if [ -e /x ]; then etcd --name=a {NEEDED}; else exec etcd --name=b {NEEDED}; fi",
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_etcd_is_found_in_a_script_wherever_it_is_started_and_not_where_it_is_named(case: str) -> None:
    made = _started("sh", "-c", SCRIPTS[case])
    assert isinstance(made, Layout), made
    assert made.config["data-dir"] == "/var/lib/etcd"
    assert made.config["listen-client-urls"] == "http://0.0.0.0:2379"
    assert made.program == "etcd"


GIVEN = (
    ("-c",),
    ("-ec",),
    ("-ecx",),
    ("-cx",),
    ("-e", "-c"),
    ("-xe", "-uc"),
    ("-c", "-e"),
    ("-ec", "+x"),
    ("-c", "--"),
)
NAMED = (("-eo", "pipefail", "-c"), ("-eco", "pipefail"), ("-o", "errexit", "-uc"), ("--norc", "-ec"))


@pytest.mark.parametrize(
    ("shell", "flags"),
    [
        *(("/bin/sh", given) for given in GIVEN),
        *(("bash", given) for given in (*GIVEN, *NAMED)),
        ("sh", ()),
        ("sh", ("-e",)),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else one,
)
def test_a_script_is_found_behind_whatever_flags_a_shell_finds_it_behind(shell: str, flags: tuple[str, ...]) -> None:
    said = subprocess.run([shell, *flags, "echo a script"], capture_output=True, text=True, check=False).stdout
    made = _started(shell, *flags, f"exec etcd {NEEDED}")
    assert isinstance(made, Layout) is (said == "a script\n"), made


@pytest.mark.parametrize(
    "command", [("sh", "-c", f"exec /opt/bin/etcd {NEEDED}"), ("/sbin/tini", "--", "/opt/bin/etcd", *NEEDED.split())]
)
def test_what_starts_it_is_kept_with_its_path(command: tuple[str, ...]) -> None:
    made = _started(*command)
    assert isinstance(made, Layout), made
    assert made.program == "/opt/bin/etcd"


def test_settings_have_the_types_that_etcd_reads_in_a_file() -> None:
    flags = ("--cipher-suites=A,B", "--experimental-compaction-batch-limit=5", "--corrupt-check-time=1h30m")
    made = _started("etcd", *NEEDED.split(), *flags, "--pre-vote", "--initial-election-tick-advance=false")
    assert isinstance(made, Layout), made
    assert made.config["cipher-suites"] == ["A", "B"]
    assert made.config["experimental-compaction-batch-limit"] == 5
    assert made.config["corrupt-check-time"] == 5400 * 10**9
    assert (made.config["pre-vote"], made.config["initial-election-tick-advance"]) == (True, False)


CANNOT = {
    "who may be a peer": ("--peer-cert-allowed-cn=etcd", "cannot be said in a file"),
    "a revocation list": ("--peer-crl-file=/crl", "cannot be said in a file"),
    "a socket": ("--socket-reuse-port", "cannot be said in a file"),
    "no flag at all": ("--speed=11", "cannot be said in a file"),
    "no number": ("--max-wals=many", "'many' is nothing"),
    "no time": ("--corrupt-check-time=1 hour", "'1 hour' is nothing"),
    "known later": ("--listen-peer-urls=http://$(PORT):2380", "known only when a member runs"),
    "a port that is known later": ("--listen-peer-urls=http://0.0.0.0:$(PORT)", "known only when a member runs"),
    "no URL": ("--listen-peer-urls=http://0.0.0.0:many", "is no URL"),
    "another directory in each pod": ("--data-dir=/var/lib/etcd/$(HOSTNAME)", "not the same for all"),
    "a log elsewhere": ("--wal-dir=/wal", "not on the volume of the data"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_could_not_be_kept_in_a_file_is_refused_with_the_reason(case: str) -> None:
    flag, words = CANNOT[case]
    made = _started("etcd", *NEEDED.split(), flag)
    assert isinstance(made, Problem)
    assert words in made.message


def test_what_cannot_be_known_of_a_script_is_refused_with_the_reason() -> None:
    in_two_ways = _started("sh", "-c", f"if [ -e /x ]; then etcd {NEEDED} --max-wals=9; else etcd {NEEDED}; fi")
    assert isinstance(in_two_ways, Problem)
    assert "in different ways" in in_two_ways.message
    somewhere = _started("sh", "-c", f"cd /opt && ./bin/etcd {NEEDED}")
    assert isinstance(somewhere, Problem)
    assert "where ./bin/etcd is" in somewhere.message
    unread = _started(
        "etcd",
        "--config-file=/etc/etcd/broken.yaml",
        volumeMounts=[{"name": "file", "mountPath": "/etc/etcd", "subPath": ""}],
    )
    assert isinstance(unread, Problem)


def test_a_file_that_is_none_of_etcds_is_a_problem_of_that_set_alone() -> None:
    found = SET_UPS["plain"].stateful()
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container.update(command=["etcd"], args=["--config-file=/etc/etcd/etcd.yaml"])
    container["volumeMounts"].append({"name": "file", "mountPath": "/etc/etcd"})
    found["spec"]["template"]["spec"]["volumes"] = [{"name": "file", "configMap": {"name": "file"}}]
    for text in ("a: [b", "- a", "%"):
        read = layout(found, lambda kind, name, text=text: {"etcd.yaml": text})  # type: ignore[misc]
        assert isinstance(read, Problem)
        assert "not a file of etcd's" in read.message


def test_pods_that_are_not_numbered_from_zero_are_refused() -> None:
    found = SET_UPS["plain"].stateful()
    found["spec"]["ordinals"] = {"start": 1}
    read = layout(found, texts(SET_UPS["plain"]))
    assert isinstance(read, Problem)
    assert "numbered from 1 on" in read.message


def test_a_client_of_etcd_is_not_taken_for_one() -> None:
    client = [{"name": name, "value": "etcd:2379"} for name in ("ETCD_HOST", "ETCD_HOSTS", "ETCD_PROTOCOL")]
    made = _started(env=client)
    assert isinstance(made, Problem)
    assert made.message == "no container starts etcd"
    variables = {"ETCD_DATA_DIR": "/var/lib/etcd", "ETCD_LISTEN_CLIENT_URLS": "http://0.0.0.0:2379", "ETCD_ON_K8S": "1"}
    assert isinstance(_started(env=[{"name": name, "value": value} for name, value in variables.items()]), Layout)
