"""Faults of the control plane, and of a whole lab: how they are made, listed and undone, and by whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import psutil
import pytest

from fleet.cli import run
from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import Lab, cleanup
from fleet.lab.faults import records
from fleet.lab.faults.api import ports
from fleet.lab.lab import take_down
from fleet.testing import Cluster
from fleet.testing.faults import Faults
from tests.lab.faults.town import Town
from tests.lab.machine import left_behind, snapshot


def answers(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("get", "--raw=/readyz", "--request-timeout=2s")
    except ResourceError:
        return False
    return True


def wait_answers(cluster: Cluster) -> None:
    """It may need a moment after it stood still."""
    cluster.wait("it answers", lambda: answers(cluster), 30)


def wait_cleared(directory: Path, timeout: float = 60) -> None:
    """By the guardian: records are read here, and nothing that would itself undo is called."""
    deadline = time.monotonic() + timeout
    while records.read_faults(directory):
        assert time.monotonic() < deadline, records.read_faults(directory)
        time.sleep(0.05)


def test_a_frozen_api_server_takes_connections_and_answers_nothing(cluster: Cluster) -> None:
    faults = Faults(cluster)
    pid = cluster.process("kube-apiserver")
    with faults.freeze("kube-apiserver"), pytest.raises(ResourceError, match=r"(?i)timeout|deadline"):
        cluster.kubectl("get", "--raw=/readyz", "--request-timeout=1s")
    wait_answers(cluster)
    assert cluster.process("kube-apiserver") == pid


def test_a_killed_api_server_is_started_again_when_the_fault_is_over(cluster: Cluster) -> None:
    faults = Faults(cluster)
    pid = cluster.process("kube-apiserver")
    with faults.kill("kube-apiserver"):
        with pytest.raises(ResourceError, match="refused"):
            cluster.kubectl("get", "--raw=/readyz")
        with pytest.raises(ConfigurationError, match="kube-apiserver does not run"):
            faults.freeze("kube-apiserver")
    wait_answers(cluster)
    assert cluster.process("kube-apiserver") != pid


def test_faults_that_need_each_other_are_undone_together(cluster: Cluster) -> None:
    faults = Faults(cluster)
    faults.kill("etcd")
    faults.kill("kube-apiserver")
    faults.clear()
    wait_answers(cluster)
    assert faults.active() == []


def test_from_the_command_line_a_fault_stays_until_it_is_cleared(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    name = ["--name", cluster.lab.spec.name]
    fault = ["lab", "fault"]
    assert run([*fault, "freeze", "kube-scheduler", *name, "--cluster", cluster.name]) == 0
    said = capfd.readouterr()
    assert "undo it: fleet lab fault clear" in said.err
    assert run([*fault, "list", *name]) == 0
    text = capfd.readouterr().out
    assert text.splitlines()[0].split() == ["ID", "CLUSTER", "FAULT", "AGE", "ENDS"]
    assert "freeze-program kube-scheduler" in text
    assert "when cleared" in text
    assert run([*fault, "list", *name, "-o", "json"]) == 0
    [row] = orjson.loads(capfd.readouterr().out)
    assert row["kind"] == "freeze-program"
    assert row["owner"] is None
    assert run([*fault, "clear", str(row["id"] + 1000), *name]) == NotFoundError.exit_code
    assert f"active faults: {row['id']}" in capfd.readouterr().err
    assert run([*fault, "clear", *name]) == ConfigurationError.exit_code
    assert run([*fault, "clear", str(row["id"]), *name]) == 0
    assert "undone" in capfd.readouterr().err
    assert run([*fault, "list", *name]) == 0
    assert capfd.readouterr().out == "nothing is wrong\n"
    assert run([*fault, "clear", "--all", *name]) == 0


def test_simulated_nodes_have_nothing_that_could_break(cluster: Cluster) -> None:
    faults = Faults(cluster)
    tries: list[Callable[[], object]] = [
        lambda: faults.kill("pod/web"),
        lambda: faults.freeze(f"node/{cluster.node_names[0]}"),
        lambda: faults.partition([f"node/{cluster.node_names[0]}"]),
        lambda: faults.fill("volume/data"),
    ]
    for wrong in tries:
        with pytest.raises(ConfigurationError, match="has simulated nodes, and those have no"):
            wrong()
    assert faults.active() == []


CHILD = """
import os, sys, time
from fleet.lab import Lab
from fleet.lab.proxy.plan import Match
from fleet.testing import Cluster
from fleet.testing.faults import Faults

script, lab, cluster, namespace, *nodes = sys.argv[1:]
faults = Faults(Cluster(Lab.open(lab), cluster, namespace))
exec(script)
print("broken", flush=True)
time.sleep(600)
"""
FIVE = """
faults.freeze("pod/beside")
faults.partition([f"node/{nodes[0]}"], ["kube-apiserver"])
faults.disturb(["pod/here"], ["pod/there"], loss=1)
faults.fill("volume/data")
faults.kill("kube-scheduler")
"""
THREE = """
faults.corrupt("volume/data", file="numbers", places=5)
faults.api.skew(-40)
faults.freeze(f"node/{nodes[1]}")
"""
KILLED = """
faults.kill(f"node/{nodes[1]}")
faults.api.slow(1.0, Match(resource="secrets"))
"""
STOPPED = """
faults.stop(f"node/{nodes[1]}", grace=1)
faults.api.forget(Match(resource="secrets"))
"""
LOST = """
faults.lose(f"node/{nodes[0]}")
faults.api.fail(503, Match(resource="secrets"))
"""


def broken_by(town: Town, script: str) -> subprocess.Popen[str]:
    """A process that has broken something and lives on."""
    cluster = town.cluster
    command = [sys.executable, "-c", CHILD, script, cluster.lab.spec.name, cluster.name, cluster.namespace, *town.nodes]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    assert child.stdout.readline() == "broken\n"
    return child


@pytest.mark.real_nodes
def test_all_is_undone_when_the_process_that_broke_it_is_killed(town: Town) -> None:
    cluster, child = town.cluster, broken_by(town, FIVE)
    assert len(records.read_faults(cluster.lab.directory)) == 5
    assert not town.reaches("here", "there")
    assert not town.reaches("here", "beside")
    child.send_signal(signal.SIGKILL)  # nobody waits for it: it stays a zombie
    wait_cleared(cluster.lab.directory)
    child.wait()
    assert town.reaches("here", "there")
    assert town.reaches("here", "beside")
    assert cluster.process("kube-scheduler")
    assert town.dials("here", *town.api_service)
    assert town.shell("there", "head -c 1000000 /dev/zero > /data/x && rm /data/x && echo written") == "written\n"


@pytest.mark.real_nodes
def test_bytes_nodes_and_times_are_put_right_when_the_process_that_broke_them_is_killed(town: Town) -> None:
    town.shell("there", "seq 10000 > /data/numbers; sync; cp /data/numbers /data/same")
    cluster, spec = town.cluster, town.cluster.lab.spec.cluster(town.cluster.name)
    child = broken_by(town, THREE)
    assert len(records.read_faults(cluster.lab.directory)) == 3
    assert not town.reaches("here", "there")
    assert ports.count_listeners(spec.address, spec.ports["kube-apiserver"], None) == 2, (
        "a proxy is before the API server"
    )
    child.send_signal(signal.SIGKILL)
    wait_cleared(cluster.lab.directory)
    child.wait()
    assert town.reaches("here", "there")
    assert (
        town.shell("there", "cmp /data/numbers /data/same && rm /data/numbers /data/same && echo mended") == "mended\n"
    )
    assert ports.count_listeners(spec.address, spec.ports["kube-apiserver"], None) == 1, "nobody is before it any more"
    cluster.wait("the nodes are ready", lambda: all(town.is_ready(node) for node in town.nodes))


@pytest.mark.real_nodes
@pytest.mark.parametrize(
    ("script", "gone", "kinds"),
    [
        (KILLED, "there", ["kill-node", "slow-api"]),
        (STOPPED, "there", ["stop-node", "forget-api"]),
        (LOST, "here", ["lose-node", "fail-api"]),  # it has no volume that the next test would miss
    ],
    ids=["killed", "stopped", "lost"],
)
def test_nodes_start_again_when_the_process_that_ended_them_is_killed(
    town: Town, script: str, gone: str, kinds: list[str]
) -> None:
    cluster, spec = town.cluster, town.cluster.lab.spec.cluster(town.cluster.name)
    other = {"here": "there", "there": "here"}[gone]
    restarts = town.restarts(gone)
    child = broken_by(town, script)
    assert [one.fault.kind for one in records.read_faults(cluster.lab.directory)] == kinds
    assert not town.reaches(other, gone)
    assert ports.count_listeners(spec.address, spec.ports["kube-apiserver"], None) == 2, (
        "a proxy is before the API server"
    )
    child.send_signal(signal.SIGKILL)
    wait_cleared(cluster.lab.directory)
    child.wait()
    assert ports.count_listeners(spec.address, spec.ports["kube-apiserver"], None) == 1, "nobody is before it any more"
    cluster.wait("its pod runs again", lambda: town.restarts(gone) > restarts, 90)
    cluster.wait("its pod answers", lambda: town.reaches(other, gone), 90)
    cluster.wait("the nodes are ready", lambda: all(town.is_ready(node) for node in town.nodes), 90)
    town.shell("there", "rm -f /data/asked-to-end")


STOPPING = """
faults.freeze("pod/there")  # so that it does not end when it is asked to
print("broken", flush=True)
faults.stop(f"node/{nodes[1]}", grace=600)
"""


@pytest.mark.real_nodes
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.full)], ids=["killed", "interrupted"]
)
def test_a_node_that_was_being_stopped_starts_again_when_the_process_that_stops_it_ends(
    town: Town, how: signal.Signals
) -> None:
    cluster, node, restarts = town.cluster, town.nodes[1], town.restarts("there")
    before, child = cluster.process(node), broken_by(town, STOPPING)
    cluster.wait("the node stands still", lambda: psutil.Process(before).status() == psutil.STATUS_STOPPED)
    child.send_signal(how)
    wait_cleared(cluster.lab.directory)
    child.wait()
    assert cluster.process(node) != before
    cluster.wait("its pod runs again", lambda: town.restarts("there") > restarts, 90)
    cluster.wait("its pod answers", lambda: town.reaches("here", "there"), 90)
    cluster.wait("it is ready", lambda: town.is_ready(node), 90)


LOSING = """
from fleet.lab.faults.kinds import volumes

def empty(place):
    print("broken", flush=True)
    time.sleep(600)

volumes.empty_directory = empty
faults.lose("volume/data")
"""


@pytest.mark.real_nodes
def test_pods_of_a_volume_do_not_stay_frozen_when_the_process_that_loses_it_is_killed(town: Town) -> None:
    restarts, child = town.restarts("there"), broken_by(town, LOSING)
    assert [one.fault.kind for one in records.read_faults(town.cluster.lab.directory)] == ["lose-volume"]
    assert not town.reaches("here", "there")
    child.send_signal(signal.SIGKILL)
    wait_cleared(town.cluster.lab.directory)
    child.wait()
    town.cluster.wait("its pod runs again", lambda: town.restarts("there") > restarts, 90)
    town.cluster.wait("its pod answers", lambda: town.reaches("here", "there"), 90)


@pytest.mark.real_nodes
def test_a_schedule_breaks_and_mends_and_says_its_seed(town: Town, breaking: Faults) -> None:
    said: list[str] = []
    schedule = breaking.schedule(
        5, ["pod/here", "pod/beside"], length=6, pause=0.5, lasts=(0.3, 0.6), only=["freeze", "partition", "drop"]
    )
    happened = breaking.run(schedule, said.append)
    assert said[0] == f"seed 5: {len(schedule.events())} faults in 6 s"
    assert happened == list(schedule.events())
    assert len(happened) >= 3
    assert breaking.active() == []
    assert town.reaches("here", "beside")
    assert town.reaches("there", "here")


def test_a_schedule_can_be_of_the_ways_in_which_an_api_server_fails(cluster: Cluster) -> None:
    faults, ways = Faults(cluster), ["fail", "slow", "forget", "skew"]
    schedule = faults.schedule(2, ["kube-apiserver"], length=5, pause=0.3, lasts=(0.1, 0.3), only=ways)
    assert {event.fault.kind for event in schedule.events()} == {"fail-api", "slow-api", "forget-api", "skew-leases"}
    assert faults.run(schedule, lambda line: None) == list(schedule.events())
    assert faults.active() == []
    wait_answers(cluster)


@pytest.fixture
def own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    base = Path("/tmp") / f"fl{os.getpid()}f"  # short: sockets are below it
    monkeypatch.setenv("FLEET_STATE_DIR", str(base))
    yield
    for lab in (base / "labs").glob("*"):
        cleanup.remove_lab(lab.name)
    subprocess.run(["rm", "-r", str(base)], check=False)


@pytest.mark.real_nodes
@pytest.mark.usefixtures("own_state")
def test_nothing_is_left_of_a_lab_that_goes_down_in_the_middle_of_faults() -> None:
    before = snapshot()
    lab = Lab.up("broken", ["x"], nodes="real", workers=1)
    faults = Faults(Cluster(lab, "x", "default"))
    node = f"node/{lab.spec.cluster('x').node_name(1)}"
    faults.disturb([node], delay=0.1)
    faults.partition([node], ["kube-apiserver"])
    faults.freeze("kube-scheduler")
    faults.freeze(node)
    assert len(faults.active()) == 4
    take_down("broken")
    assert left_behind(before, lab.directory) == {}
