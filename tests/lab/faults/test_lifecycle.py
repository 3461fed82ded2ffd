"""Every way in which a fault ends, without a cluster: the programs of this lab only sleep."""

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

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import Lab
from fleet.lab.faults import ActiveFault, Fault, clear, inject, list_active, records
from fleet.lab.faults.guardian import ROLE
from fleet.lab.faults.kinds.control_plane import FreezeProgram
from fleet.lab.programs import process
from fleet.lab.programs.process import identify
from fleet.lab.spec import ClusterSpec, LabSpec

SLEEPERS = ("kube-scheduler", "etcd")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("FLEET_STATE_DIR", str(tmp_path))
    spec = LabSpec("asleep", (ClusterSpec("c", "simulated", 0, {}),))
    spec.save()
    started = [process.start(spec.directory, f"c/{one}", ["sleep", "600"], tmp_path / "log") for one in SLEEPERS]
    while not all(f"c/{one}" in process.running_processes(spec.directory) for one in SLEEPERS):
        time.sleep(0.01)
    yield Lab(spec)
    process.stop(spec.directory)
    for one in started:
        one.wait()


def freeze(program: str) -> Fault:
    return Fault("freeze-program", "c", (program,))


def is_frozen(lab: Lab, program: str) -> bool:
    return process.running_processes(lab.directory)[f"c/{program}"].status() == psutil.STATUS_STOPPED


def wait_undone(lab: Lab, timeout: float = 60) -> None:
    """By the guardian: only the records are read here."""
    deadline = time.monotonic() + timeout
    while records.read_faults(lab.directory):
        assert time.monotonic() < deadline, records.read_faults(lab.directory)
        time.sleep(0.02)


def child(lab: Lab, script: str) -> subprocess.Popen[str]:
    """A process that breaks the scheduler, says so and does what `script` says."""
    begin = "import os, sys, time\nfrom fleet.lab import Lab\nfrom fleet.lab.programs import process\n"
    begin += "from fleet.lab.faults import Fault, inject\n"
    begin += "lab = Lab.open('asleep')\nmine = process.identify(os.getpid())\n"
    begin += "inject(lab, Fault('freeze-program', 'c', ('kube-scheduler',)), owner=mine)\nprint('broken', flush=True)\n"
    made = subprocess.Popen([sys.executable, "-c", begin + script], stdout=subprocess.PIPE, text=True)
    assert made.stdout
    assert made.stdout.readline() == "broken\n"
    return made


def test_a_fault_of_nobody_stays_until_it_is_cleared(lab: Lab) -> None:
    first, second = inject(lab, freeze("kube-scheduler")), inject(lab, freeze("etcd"))
    assert [first.id, second.id] == [1, 2]
    assert is_frozen(lab, "kube-scheduler")
    assert list_active(lab) == [first, second]
    assert clear(lab, [1]) == [first]
    assert not is_frozen(lab, "kube-scheduler")
    assert is_frozen(lab, "etcd")
    with pytest.raises(NotFoundError, match="there is no fault 1") as caught:
        clear(lab, [1])
    assert "active faults: 2" in str(caught.value)
    clear(lab)
    assert list_active(lab) == []
    assert inject(lab, freeze("etcd")).id == 3  # a number means one fault for ever
    assert ROLE not in process.running_processes(lab.directory)  # nobody has to wait for anything


def test_a_fault_ends_when_its_time_is_up(lab: Lab) -> None:
    inject(lab, freeze("etcd"), seconds=0.5)
    assert is_frozen(lab, "etcd")
    wait_undone(lab)
    assert not is_frozen(lab, "etcd")


def test_a_fault_ends_with_its_owner_also_when_that_is_killed(lab: Lab) -> None:
    mine = inject(lab, freeze("etcd"), owner=identify(os.getpid()))
    other = child(lab, "time.sleep(600)")
    assert is_frozen(lab, "kube-scheduler")
    other.send_signal(signal.SIGKILL)  # nobody waits for it yet: it stays a zombie
    deadline = time.monotonic() + 60
    while records.read_faults(lab.directory) != [mine]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not is_frozen(lab, "kube-scheduler")
    assert is_frozen(lab, "etcd")  # its owner lives
    other.wait()
    clear(lab)


def test_without_the_guardian_the_next_command_undoes_what_a_dead_process_left(lab: Lab) -> None:
    script = "guardian = process.running_processes(lab.directory)['faults/guardian']\n"
    script += "guardian.kill()\nguardian.wait()\nos._exit(9)"
    gone = child(lab, script)
    assert gone.wait() == 9
    assert ROLE not in process.running_processes(lab.directory)
    assert is_frozen(lab, "kube-scheduler")
    assert list_active(lab) == []
    assert not is_frozen(lab, "kube-scheduler")


def test_one_that_fails_to_begin_leaves_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FreezeProgram.begin

    def half(self: FreezeProgram, lab: Lab, active: ActiveFault) -> None:
        whole(self, lab, active)
        raise ResourceError("no more")

    monkeypatch.setattr(FreezeProgram, "begin", half)
    with pytest.raises(ResourceError, match="no more"):
        inject(lab, freeze("etcd"))
    assert not is_frozen(lab, "etcd")
    assert list_active(lab) == []


def test_one_that_cannot_be_undone_is_kept_and_does_not_keep_the_others(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject(lab, freeze("etcd"))
    stuck = inject(lab, freeze("kube-scheduler"))

    def fails(self: FreezeProgram, lab: Lab, active: ActiveFault) -> None:
        if active.id == stuck.id:
            raise ResourceError("it is stuck")

    with monkeypatch.context() as patch:
        patch.setattr(FreezeProgram, "end", fails)
        with pytest.raises(ResourceError, match=r"not undone: 2 \(freeze-program kube-scheduler\): it is stuck"):
            clear(lab)
    assert list_active(lab) == [stuck]
    clear(lab)
    assert not is_frozen(lab, "kube-scheduler")


def test_what_was_frozen_may_be_gone_when_it_is_cleared(lab: Lab) -> None:
    inject(lab, freeze("etcd"))
    process.running_processes(lab.directory)["c/etcd"].kill()
    clear(lab)
    assert list_active(lab) == []


def test_what_is_not_there_cannot_break(lab: Lab) -> None:
    with pytest.raises(ConfigurationError, match="kube-apiserver does not run in cluster 'c'") as caught:
        inject(lab, freeze("kube-apiserver"))
    assert "etcd, kube-scheduler" in str(caught.value)
    with pytest.raises(ConfigurationError, match="there is no fault 'explode'"):
        inject(lab, Fault("explode", "c"))
    with pytest.raises(NotFoundError, match="has no cluster 'other'"):
        inject(lab, Fault("freeze-program", "other", ("etcd",)))
    assert clear(lab) == []
    assert list_active(lab) == []
