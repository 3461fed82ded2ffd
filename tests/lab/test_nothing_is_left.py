"""After `down` the machine is as before, whatever was killed and whenever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fleet.errors import ResourceError
from fleet.lab import Lab, cleanup, files, spec
from fleet.lab.cluster import cgroups, network, volumes
from fleet.lab.cluster import volumes as loops
from fleet.lab.lab import take_down
from fleet.lab.programs import process
from fleet.testing import Cluster
from fleet.testing.plugin import Labs
from tests.lab.machine import left_behind, mark, snapshot
from tests.lab.test_real_nodes import pod
from tests.lab.test_volumes import claim

pytestmark = pytest.mark.real_nodes


@pytest.fixture(autouse=True)
def own_state(request: pytest.FixtureRequest, fleet_labs: Labs, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Labs of these tests are apart from the ones that the run shares, and none is left."""
    if "cluster" in request.fixturenames:
        fleet_labs.simulated(1)  # the run's own, which shall not be below the place that is removed here
    base = Path("/tmp") / f"fl{os.getpid()}"  # short: sockets are below it
    monkeypatch.setenv("FLEET_STATE_DIR", str(base))
    yield
    for lab in (base / "labs").glob("*"):
        cleanup.remove_lab(lab.name)
    subprocess.run(["rm", "-r", str(base)], check=False)


def running_pod(lab: Lab) -> None:
    """A container that runs: its process is not a child of ours, and outlives its shim. It has a volume mounted."""
    from fleet.lab.cluster.node import PAUSE
    from fleet.lab.images.bake import bake_pause

    lab.load_images([bake_pause(PAUSE)])
    name = lab.spec.clusters[0].name
    cluster = Cluster(lab, name, "default")
    held = pod("held", PAUSE, ["/pause"], restartPolicy="Always")
    held["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    held["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.apply(claim("data", "64Mi"), held)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/held", "--timeout=60s")


def lasting(lab: Lab) -> dict[str, int]:
    """The processes of a lab, but for those of faults: they end by themselves when they have nothing to do."""
    found = process.running_processes(lab.directory)
    return {role: one.pid for role, one in found.items() if not role.startswith("fault")}


def test_nothing_is_left_after_down_and_other_labs_are_not_disturbed(cluster: Cluster) -> None:
    other = lasting(cluster.lab)
    before = snapshot()
    lab = Lab.up("gone", ["x"], nodes="real", workers=1)
    running_pod(lab)
    assert lab.status()["ready"]
    take_down("gone")
    assert left_behind(before, lab.directory) == {}
    assert lasting(cluster.lab) == other
    assert cluster.kubectl("get", "nodes")


SAMPLE = ["node_init", "containerd-shim-runc-v2", "kube-apiserver"]
REST = ["unshare", "containerd", "kubelet", "kube-proxy", "coredns", "provisioner"]
REST += ["etcd", "kube-controller-manager", "kube-scheduler"]


@pytest.mark.parametrize("victim", [*SAMPLE, *(pytest.param(one, marks=pytest.mark.full) for one in REST)])
def test_nothing_is_left_after_a_process_of_the_lab_was_killed(victim: str) -> None:
    before = snapshot()
    lab = Lab.up("killed", ["x"], nodes="real", workers=1)
    running_pod(lab)
    kill(lab, victim)
    take_down("killed")
    assert left_behind(before, lab.directory) == {}


def test_nothing_is_left_of_simulated_nodes_after_what_simulates_them_was_killed() -> None:
    before = snapshot()
    lab = Lab.up("killed", ["x"], nodes="simulated", workers=1)
    kill(lab, "provisioner")
    take_down("killed")
    assert left_behind(before, lab.directory) == {}


def kill(lab: Lab, victim: str) -> None:
    """Kill the lab's processes of this name, which there must be."""
    killed = 0
    for one in psutil.process_iter():
        try:
            line = " ".join(one.cmdline())
            marked = one.environ().get(process.MARK) == str(lab.directory)
            # The kernel keeps fifteen characters of a name; the first process of a node is a script.
            if marked and (one.name() in (victim, victim[:15]) or (f"{victim}.py" in line and one.name() != "unshare")):
                one.kill()
                killed += 1
        except psutil.Error:
            continue
    assert killed


EARLY_AND_LATE = ["lab.json", "kubelet"]
BETWEEN = ["etcd", "x/x-node-1", "containerd", "kube-apiserver", "provisioner", "kube-proxy", "kube-scheduler"]


def has_begun(lab: Path, what: str) -> bool:
    """Whether a starting lab has come so far: there is a file, a role, or a program of that name."""
    if (lab / what).is_file():
        return True
    if what in process.running_processes(lab):
        return True
    return any(mark(one) == str(lab) and name_of(one) in (what, what[:15]) for one in psutil.process_iter())


def name_of(one: psutil.Process) -> str:
    try:
        return one.name()
    except psutil.Error:
        return ""


@pytest.mark.parametrize("what", [*EARLY_AND_LATE, *(pytest.param(one, marks=pytest.mark.full) for one in BETWEEN)])
def test_nothing_is_left_after_up_was_killed_in_the_middle(what: str) -> None:
    before, lab = snapshot(), spec.lab_directory("half")
    command = [sys.executable, "-m", "fleet", "lab", "up", "--name", "half", "--clusters", "x", "--workers", "1"]
    starting = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not has_begun(lab, what):
        assert starting.poll() is None, f"it was over before there was {what}"
        time.sleep(0.01)
    starting.send_signal(signal.SIGKILL)
    starting.wait()
    take_down("half")
    assert left_behind(before, lab) == {}


CUT_SHORT = """
import os, signal, sys
from fleet.lab import Lab

def cut(event, arguments):
    if event == "subprocess.Popen" and sys.argv[1] in arguments[1]:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(cut)
Lab.up("half", ["x"], nodes="real", workers=1)
"""


@pytest.mark.parametrize(
    "before_it_runs", ["veth", "master"]
)  # its node has no cable; it has one that is not plugged in
def test_up_goes_on_where_one_that_was_killed_has_left_off(before_it_runs: str) -> None:
    before = snapshot()
    done = subprocess.run([sys.executable, "-c", CUT_SHORT, before_it_runs], check=False, stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    half = spec.lab_directory("half")
    first = process.running_processes(half)["x/x-node-1"].pid
    lab = Lab.up("half")
    assert process.running_processes(half)["x/x-node-1"].pid == first
    assert lab.status()["ready"]
    take_down("half")
    assert left_behind(before, half) == {}


def test_up_again_is_a_no_op_and_a_node_can_join_later() -> None:
    lab = Lab.up("twice", ["x"], nodes="real", workers=1)
    pids = {role: one.pid for role, one in process.running_processes(lab.directory).items()}
    again = Lab.up("twice")
    assert {role: one.pid for role, one in process.running_processes(again.directory).items()} == pids
    assert again.spec == lab.spec
    more = Lab.up("twice", workers=2)
    assert more.status()["ready"]
    assert len(more.status()["clusters"][0]["nodes"]) == 2
    assert pids.items() <= {role: one.pid for role, one in process.running_processes(more.directory).items()}.items()


def test_up_after_a_reboot_brings_everything_back() -> None:
    lab = Lab.up("boot", ["x"], nodes="real", workers=1)
    running_pod(lab)
    lab.kubectl("x", "create", "configmap", "kept", "--from-literal=a=b")
    volume = volumes.find_claim_volume(lab, "x", "default", "data")
    assert volume.mount
    (volume.mount / "file").write_text("kept")
    # What a reboot takes away: processes, control groups, links, loop devices. Files stay.
    process.stop(lab.directory)
    cgroups.remove_trees(lab.spec.id)
    network.remove_links(lab.spec.id)
    while devices := loops.find_devices(lab.directory):
        loops.release_device(devices[0])
    again = Lab.up("boot")
    assert again.status()["ready"]
    assert "kept" in again.kubectl("x", "get", "configmaps")
    again.kubectl("x", "wait", "--for=condition=Ready", "pod/held", "--timeout=90s")
    again_mounted = volumes.find_claim_volume(again, "x", "default", "data").mount
    assert again_mounted
    assert (again_mounted / "file").read_text() == "kept"


def test_a_killed_program_is_started_again_by_up() -> None:
    lab = Lab.up("heal", ["x"], nodes="simulated", workers=1)
    victim = process.running_processes(lab.directory)["x/kube-scheduler"]
    victim.kill()
    victim.wait()
    broken = lab.status()
    assert not broken["ready"]
    assert [one["name"] for one in broken["clusters"][0]["programs"] if one["pid"] is None] == ["kube-scheduler"]
    assert Lab.up("heal").status()["ready"]


def test_a_port_in_use_is_named_with_its_holder_and_the_lab_stays_as_it_was() -> None:
    import socket

    lab = Lab.up("port", ["x"], nodes="simulated", workers=1)
    process.stop(lab.directory)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", lab.spec.clusters[0].ports["kube-apiserver"]))
        taken.listen()
        with pytest.raises(ResourceError, match=rf"x/kube-apiserver needs 127.0.0.1:\d+, but .*{os.getpid()}"):
            Lab.up("port")
        assert lab.directory.exists()
    assert Lab.up("port").status()["ready"]


def test_a_lab_whose_owner_is_gone_is_removed_by_the_next_up() -> None:
    script = "import os\nfrom fleet.lab import Lab\nfrom fleet.lab.programs.process import identify\n"
    script += "Lab.up('orphan', ['x'], nodes='simulated', workers=0, owner=identify(os.getpid()))\nos._exit(9)"
    subprocess.run([sys.executable, "-c", script], check=False, stderr=subprocess.DEVNULL)
    orphan = spec.lab_directory("orphan")
    assert process.running_processes(orphan)
    Lab.up("next", ["x"], nodes="simulated", workers=0)
    assert not process.running_processes(orphan)
    assert not orphan.exists()


def test_labs_that_start_at_once_do_not_disturb_each_other_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = files.labs_directory().parent, files.labs_directory().parent / "o"
    command = [sys.executable, "-m", "fleet", "lab", "up", "--workers", "1", "--clusters", "x", "--name", "one"]
    starting = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "FLEET_STATE_DIR": str(place)})
        for place in (here, there)
    ]
    said = [one.communicate(timeout=180)[1] for one in starting]
    with monkeypatch.context() as patch:
        patch.setenv("FLEET_STATE_DIR", str(there))
        second = next(iter(spec.load_readable_specs()), None)
        cleanup.remove_lab("one")
    assert [one.returncode for one in starting] == [0, 0], said
    first = Lab.open("one")
    assert second and second.clusters[0].network != first.spec.clusters[0].network
    assert first.status()["ready"]
