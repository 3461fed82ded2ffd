"""Services start, stop, come back after they were killed, and go with their lab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import psutil
import pytest

from fleet.cli import run
from fleet.errors import NotFoundError, ResourceError
from fleet.lab import cleanup, spec
from fleet.lab.lab import Lab, take_down
from fleet.lab.programs import process
from fleet.lab.services import ServiceRecord, read_status, start_services, stop_services
from fleet.lab.services.lifecycle import LOOPBACK, POOLS, choose_port, free_address
from fleet.lab.services.s3 import REGION
from fleet.testing.forge import ForgeUser
from fleet.testing.s3 import Account, Bucket, Key
from tests.lab.machine import left_behind, snapshot


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Labs of these tests are apart from the ones that the run shares, and none is left."""
    base = Path("/tmp") / f"fls{os.getpid()}"
    monkeypatch.setenv("FLEET_STATE_DIR", str(base))
    yield
    for lab in (base / "labs").glob("*"):
        cleanup.remove_lab(lab.name)
    subprocess.run(["rm", "-r", str(base)], check=False)


def administrator(record: ServiceRecord) -> ForgeUser:
    return ForgeUser(record.url, record.user, record.secret)


def account(record: ServiceRecord) -> Account:
    return Account(record.url, REGION, Key(record.user, record.secret))


def pid(record: ServiceRecord) -> int:
    return process.running_processes(spec.lab_directory(record.lab))[record.role].pid


def test_what_a_forge_keeps_is_there_after_a_stop_and_after_it_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot()
    (forge,) = start_services("alone", ["forge"])
    monkeypatch.setenv("SSL_CERT_FILE", str(forge.bundle))
    place = urlsplit(forge.url)
    assert place.scheme == "https", "git sends a password there"
    if os.geteuid() == 0:
        assert not IPv4Address(place.hostname or "").is_loopback, "pods reach it, too"
    administrator(forge).repository("shop")
    assert stop_services("alone", ["forge"]) == ["forge"]
    assert process.running_processes(spec.lab_directory("alone")) == {}
    assert stop_services("alone") == []

    assert start_services("alone", ["forge"]) == [forge]
    assert administrator(forge).api("GET", f"/repos/{forge.user}/shop")["name"] == "shop"
    first = pid(forge)
    assert start_services("alone", ["forge"]) == [forge]
    assert pid(forge) == first

    os.kill(first, signal.SIGKILL)
    assert [(one["name"], one["ready"]) for one in read_status("alone")] == [("forge", False)]
    assert start_services("alone", ["forge"]) == [forge]
    assert administrator(forge).api("GET", f"/repos/{forge.user}/shop")["name"] == "shop"

    directory = spec.lab_directory("alone")
    take_down("alone")
    assert left_behind(before, directory) == {}


def test_what_s3_keeps_is_there_after_a_stop_a_freeze_and_a_kill() -> None:
    before = snapshot()
    (s3,) = start_services("alone", ["s3"])
    bucket = account(s3).new_bucket("backups")
    bucket.put("a", b"kept")
    stop_services("alone", ["s3"])
    with pytest.raises(ResourceError):
        bucket.get("a")
    assert start_services("alone", ["s3"]) == [s3]
    assert bucket.get("a") == b"kept"
    os.kill(pid(s3), signal.SIGKILL)
    start_services("alone", ["s3"])
    assert bucket.get("a") == b"kept"
    directory = spec.lab_directory("alone")
    take_down("alone")
    assert left_behind(before, directory) == {}


def test_a_service_that_does_not_answer_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    (s3,) = start_services("frozen", ["s3"])
    Bucket(account(s3), "backups").account.new_bucket("backups").put("a", b"kept")
    frozen = pid(s3)
    os.kill(frozen, signal.SIGSTOP)
    monkeypatch.setattr("fleet.lab.services.lifecycle.STUCK_AFTER", 0.5)
    start_services("frozen", ["s3"])
    assert pid(s3) != frozen
    assert Bucket(account(s3), "backups").get("a") == b"kept"


def test_services_of_labs_are_apart_and_both_serve() -> None:
    one, two = start_services("one", ["s3"])[0], start_services("two", ["s3"])[0]
    assert one.url != two.url
    account(one).new_bucket("only-here")
    assert account(two).buckets() == []
    take_down("one")
    assert account(two).buckets() == []


def test_a_lab_of_services_gets_clusters_later() -> None:
    (s3,) = start_services("grown", ["s3"])
    first = pid(s3)
    lab = Lab.up("grown", ["x"], nodes="simulated", workers=1)
    assert lab.status()["ready"]
    assert pid(s3) == first
    assert start_services("grown", ["s3"]) == [s3]
    assert account(s3).buckets() == []


def test_services_of_a_run_that_was_killed_are_removed_by_the_next_start() -> None:
    script = "import os\nfrom fleet.lab.services import start_services\n"
    script += "from fleet.lab.programs.process import identify\n"
    script += "start_services('orphan', ['s3'], owner=identify(os.getpid()))\nos._exit(9)"
    subprocess.run([sys.executable, "-c", script], check=False)
    orphan = spec.lab_directory("orphan")
    assert process.running_processes(orphan)
    start_services("next", ["s3"])
    assert not process.running_processes(orphan)
    assert not orphan.exists()


def test_nothing_is_left_when_a_start_is_killed_in_the_middle() -> None:
    before = snapshot()
    command = [sys.executable, "-m", "fleet", "lab", "service", "forge", "--name", "half"]
    starting = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not process.running_processes(spec.lab_directory("half")):
        assert starting.poll() is None
    starting.kill()
    starting.wait()
    assert start_services("half", ["forge"])[0].lab == "half"
    directory = spec.lab_directory("half")
    take_down("half")
    assert left_behind(before, directory) == {}


def test_the_command_line_says_how_to_use_a_service_and_how_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    def fleet(*arguments: str, code: int = 0) -> tuple[str, str]:
        assert run(["lab", *arguments]) == code
        said = capfd.readouterr()
        return said.out, said.err

    started, _ = fleet("service", "s3", "--name", "typed")
    assert "export AWS_ENDPOINT_URL=http://" in started
    (row,) = orjson.loads(fleet("service", "start", "s3", "--name", "typed", "-o", "json")[0])
    for line in fleet("service", "env", "--name", "typed")[0].splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        assert row["environment"][name] == value
        assert line in started
    header, service = fleet("service", "list")[0].splitlines()
    assert header.split() == ["SERVICE", "LAB", "STATE", "URL", "PROGRAM", "MEMORY"]
    assert service.split()[:4] == ["s3", "typed", "ready", row["url"]]
    fleet("status", "--name", "typed")
    for of_clusters in (
        ["logs"],
        ["kubeconfig"],
        ["fault", "freeze", "kube-apiserver"],
        ["fault", "api", "forget"],
    ):
        said, why = fleet(*of_clusters, "--name", "typed", code=6)
        assert "lab 'typed' has no cluster" in why
        assert "its services" in why
        assert said == ""
    assert "s3 is stopped" in fleet("service", "stop", "s3", "--name", "typed")[1]
    assert "no service of lab 'typed' was running" in fleet("service", "stop", "--name", "typed")[1]
    with pytest.raises(SystemExit, match="4"):
        run(["lab", "service", "status", "--name", "typed"])
    assert capfd.readouterr().out.split()[8] == "stopped"


def test_an_unknown_service_and_an_unknown_lab_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "service", "start", "ftp"]) == 2
    assert "'ftp' is not" in capfd.readouterr().err
    with pytest.raises(NotFoundError, match="no service 'ftp'"):
        start_services("x", ["ftp"])
    with pytest.raises(NotFoundError, match="no lab 'nowhere'"):
        stop_services("nowhere", ["s3"])
    assert not spec.lab_directory("x").exists()


def test_a_services_address_is_one_that_no_route_leads_to() -> None:
    assert free_address([], set()).startswith("10.99.")
    assert free_address(["default", "10.99.0.0/16", "10.98.0.0/15", "fe80::/64"], set()).startswith("10.97.")
    with pytest.raises(ResourceError, match="no free address"):
        free_address([str(pool) for pool in POOLS], set())
    assert choose_port("10.99.1.2", 9000) == 9000
    assert choose_port(LOOPBACK, 9000) != 9000


def test_nothing_listens_elsewhere_than_on_the_address_of_the_lab() -> None:
    (s3,) = start_services("listening", ["s3"])
    connections = psutil.Process(pid(s3)).net_connections("inet")
    listening = {one.laddr[:2] for one in connections if one.status == psutil.CONN_LISTEN}
    assert listening == {(s3.address, s3.port)}
