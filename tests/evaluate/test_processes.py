"""Nothing outlives an evaluation: no worker, no zygote, nothing that user code started, however it ends.

Where user code has to start processes or kill others for that, it runs without a sandbox, which would not let it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from fleet.evaluate import Limits, Pool, evaluate
from fleet.evaluate.sandbox.level import Level, Sandbox
from fleet.repository import Repository

CLUSTER = 'import fleet\nfleet.Cluster("eu-1")\n'
STACK = 'import fleet\n@fleet.stack(clusters="eu-1")\ndef {name}(cluster: fleet.Cluster) -> None:\n    {body}\n'
LEAVE_BEHIND = "import ctypes, time; ctypes.CDLL(None).fork() or (ctypes.CDLL(None).setsid(), time.sleep(1000))"


UNCONFINED = Sandbox(Level.NONE)


def repository(root: Path, **stacks: str) -> Repository:
    (root / "clusters").mkdir(parents=True)
    (root / "stacks").mkdir()
    (root / "fleet.toml").write_text("")
    (root / "clusters/all.py").write_text(CLUSTER)
    for name, body in stacks.items():
        (root / f"stacks/{name}.py").write_text(STACK.format(name=name, body=body))
    return Repository.at(root)


def inside(root: Path) -> list[psutil.Process]:
    """Processes that work in the repository; workers do, and what they start."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(root) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def staying(root: Path) -> set[psutil.Process]:
    """Those that are there for a while, and not just on their way."""
    before = set(inside(root))
    time.sleep(0.5)
    return before & set(inside(root))


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("sandbox", [Sandbox(), Sandbox(Level.B), UNCONFINED], ids=["best", "B", "none"])
def test_an_evaluation_leaves_no_process_and_no_descriptor(tmp_path: Path, sandbox: Sandbox) -> None:
    found = repository(tmp_path, good="pass", loop="while True: pass", leave=LEAVE_BEHIND, gone="1 / 0")
    me = psutil.Process()
    others = set(me.children(recursive=True))  # of other tests: clusters that the run shares
    before = me.num_fds()

    with Pool(twice=True, width=1, sandbox=sandbox) as pool:
        result = evaluate(found, twice=True, limits=Limits(time=1.0), pool=pool)

    assert len(result.problems) == (3 if sandbox is UNCONFINED else 2)  # confined, nothing can be left
    assert result.stacks == ()
    assert set(me.children(recursive=True)) <= others
    assert inside(tmp_path) == []
    assert me.num_fds() == before


def test_whoever_left_a_process_is_told_and_nobody_else(tmp_path: Path) -> None:
    """They end at the same time, and what was left has made a session of its own."""
    instant = time.time() + 1.5  # all are evaluated by then, and wait for it
    wait = f"import time; time.sleep(max(0, {instant} - time.time()))"
    names = [f"{kind}{number}" for number in range(6) for kind in ("leaves", "good")]
    found = repository(tmp_path, **{name: f"{wait}; {LEAVE_BEHIND if name[0] == 'l' else 'pass'}" for name in names})
    with Pool(width=len(names), sandbox=UNCONFINED) as pool:
        result = evaluate(found, pool=pool)
    left = {
        problem.source.file
        for problem in result.problems
        if problem.source and "running (they were ended)" in problem.message
    }
    assert left == {f"stacks/{name}.py" for name in names if name[0] == "l"}
    assert len(result.problems) == len(left)


def test_a_pool_is_used_again_after_a_worker_killed_its_zygote(tmp_path: Path) -> None:
    bad = repository(tmp_path / "bad", bad="import ctypes, os; ctypes.CDLL(None).kill(os.getppid(), 9)")
    good = repository(tmp_path / "good", good="pass")
    with Pool(sandbox=UNCONFINED) as pool:
        assert "ended the process that evaluates it" in evaluate(bad, pool=pool).problems[0].message
        assert [stack.name for stack in evaluate(good, pool=pool).stacks] == ["good"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_everything_ends_when_the_command_line_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    body = "import time; time.sleep(1000)"
    repository(tmp_path, loop=body)
    heeding = "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"  # whoever runs us
    command = subprocess.Popen(
        [sys.executable, "-c", f"{heeding}; sys.argv[0] = 'fleet'; runpy.run_module('fleet')", "check"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        above = psutil.Process(command.pid)
        assert eventually(lambda: len(staying(tmp_path)) == 3)  # itself and two workers
        below = above.children(recursive=True)
        assert len(below) == 4  # and two zygotes
    finally:
        os.kill(command.pid, how)
        command.wait(20)

    assert eventually(lambda: not any(process.is_running() for process in below))
    assert inside(tmp_path) == []


def test_stacks_are_evaluated_side_by_side(tmp_path: Path) -> None:
    naps = {f"nap{number}": "import time; time.sleep(1.0)" for number in range(4)}
    found = repository(tmp_path, **naps)
    with Pool(width=4) as pool:
        evaluate(found, stacks=[], pool=pool)  # warm
        start = time.monotonic()
        result = evaluate(found, pool=pool)
    assert not result.problems
    assert time.monotonic() - start < 4.0  # what one after the other takes at least
