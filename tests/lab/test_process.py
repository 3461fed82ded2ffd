"""Processes that are known again, and labs that are worked on by one at a time."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from fleet.errors import ResourceError
from fleet.lab.cluster import cgroups, network
from fleet.lab.faults.kinds import signals
from fleet.lab.locks import lock_existing_lab, lock_lab
from fleet.lab.programs import process
from fleet.lab.spec import lab_directory


def test_a_process_is_known_again_when_the_clock_was_set_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    known = process.identify(os.getpid())
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: time.time() + 3600)
    assert process.is_alive(process.parse_identity(list(known)))


def test_another_process_with_its_id_is_not_taken_for_it() -> None:
    mine = process.identify(os.getpid())
    other = subprocess.Popen(["sleep", "60"])
    try:
        assert not process.is_alive((other.pid, *mine[1:]))
        assert not process.is_alive((mine[0], *process.identify(other.pid)[1:]))
    finally:
        other.kill()
        other.wait()
    assert not process.is_alive((other.pid, *mine[1:]))


def test_what_was_recorded_as_a_time_of_day_is_understood() -> None:
    began = psutil.Process().create_time()
    assert process.is_alive(process.parse_identity([os.getpid(), began]))
    assert not process.is_alive(process.parse_identity([os.getpid(), began - 60]))


def test_a_lab_that_is_gone_is_not_made_by_who_waited_to_remove_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_STATE_DIR", str(tmp_path))
    with lock_existing_lab("x") as there:
        assert not there
    assert not lab_directory("x").exists()
    with lock_lab("x"):
        assert lab_directory("x").is_dir()
    with lock_existing_lab("x") as there:
        assert there


def test_groups_that_go_while_one_looks_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cgroup.procs").write_text("0\n7\n")
    (tmp_path / "a" / "b" / "cgroup.procs").write_text("8\n7\n")
    assert cgroups.list_processes(tmp_path / "a") == [7, 8]
    assert cgroups.list_groups(tmp_path / "gone") == []
    assert cgroups.list_processes(tmp_path / "gone") == []


def test_what_does_not_stop_is_an_error_and_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "PATIENCE", 0.1)
    running = subprocess.Popen(["sleep", "60"])
    try:
        monkeypatch.setattr(signals, "send", lambda processes, what: None)
        with pytest.raises(ResourceError, match=f"still run after 0.1 s: {running.pid}"):
            signals.freeze(lambda: [psutil.Process(running.pid)])
    finally:
        running.kill()
        running.wait()


def test_a_process_that_ended_has_no_network_to_lay_a_cable_to() -> None:
    ended = subprocess.Popen(["true"])
    while psutil.Process(ended.pid).status() != psutil.STATUS_ZOMBIE:  # as one is that `up` has started
        time.sleep(0.01)
    with pytest.raises(ResourceError, match=f"process {ended.pid} ended before it had a network namespace"):
        network._wait_for_namespace(ended.pid)
    ended.wait()
