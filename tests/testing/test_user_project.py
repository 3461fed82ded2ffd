"""A project of a user's own gets a real cluster in a test with two lines, and nothing is left when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from fleet.lab import cleanup
from fleet.lab import spec as specs
from fleet.lab.programs import process

TWO_LINES = """
def test_a_config_map_is_stored(cluster):
    assert "created" in cluster.kubectl("create", "configmap", "mine", "--from-literal=a=b")
"""


def test_two_lines_are_enough(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TWO_LINES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, _ = running.communicate()
    assert "1 passed" in said, said
    assert [name for name in specs.list_lab_names() if name.startswith(f"t{running.pid}-")] == []


def has_programs(lab: str) -> bool:
    return any(role.endswith("/kube-apiserver") for role in process.running_processes(specs.lab_directory(lab)))


def test_a_killed_test_run_leaves_its_lab_only_until_the_next_up(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TWO_LINES + "    import time; time.sleep(600)\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 90
    while not (
        found := [one for one in specs.list_lab_names() if one.startswith(f"t{running.pid}-") and has_programs(one)]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert has_programs(found[0])
    from fleet.lab.lab import remove_orphans

    remove_orphans()
    assert not process.running_processes(specs.lab_directory(found[0]))
    assert not cleanup.find_residue(found[0])
