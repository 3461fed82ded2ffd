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

from fleet.evaluate import Pool, evaluate
from fleet.evaluate.sandbox.level import Level, Sandbox
from fleet.repository import Repository

CLUSTER = 'import fleet\nfleet.Cluster("eu-1")\n'
STACK = 'import fleet\n@fleet.stack(clusters="eu-1")\ndef {name}(cluster: fleet.Cluster) -> None:\n    {body}\n'
LEAVE_BEHIND = "import ctypes, time; ctypes.CDLL(None).fork() or (ctypes.CDLL(None).setsid(), time.sleep(1000))"
# As daemons do: twice another process, a session of its own, nothing that it prints to, another program.
DAEMON = """\
import ctypes, os
libc = ctypes.CDLL(None)
def leave():
    reading, writing = os.pipe()
    between = libc.fork()
    if between == 0:
        libc.setsid()
        if libc.fork():
            libc._exit(0)
        nowhere = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.closerange(3, 100)  # whoever waits at the pipe goes on
        libc.execlp(b"sleep", b"sleep", b"1000", None)
        libc._exit(1)
    libc.waitpid(between, None, 0)
    os.close(writing)
    os.read(reading, 1)
"""
# One that takes its time to die: whoever traces it holds it on its way out.
SLOW_TO_DIE = """\
import ctypes, os, time
libc = ctypes.CDLL(None)
def leave():
    pid = libc.fork()
    if pid == 0:
        libc.setsid()
        libc.prctl(0x59616D61, ctypes.c_long(-1), 0, 0, 0)  # anybody may trace it
        open("ready", "w").close()
        time.sleep(1000)
    while not os.path.exists("ready"):
        time.sleep(0.05)
    os.rename("ready", f"pid-{pid}")
    while "TracerPid:\\t0\\n" in open(f"/proc/{pid}/status").read():
        time.sleep(0.05)
"""
TRACER = """\
import ctypes, signal, sys, time
from pathlib import Path
signal.alarm(120)  # not for ever, should it never come
while not (found := list(Path.cwd().glob("pid-*"))):
    time.sleep(0.05)
SEIZE, STOP_AT_EXIT = 0x4206, 0x40
if ctypes.CDLL(None).ptrace(SEIZE, int(found[0].name[4:]), 0, STOP_AT_EXIT):
    sys.exit("it cannot be traced")
sys.stdin.read()  # with the end of this it goes its way
"""
# What an evaluation leaves to the process that asked for it, seen where nothing else goes on.
ALONE = """\
import sys
from pathlib import Path
import psutil
from fleet.evaluate import Limits, Pool, evaluate
from fleet.evaluate.sandbox.level import Level, Sandbox
from fleet.repository import Repository

me = psutil.Process()
before = me.num_fds()
with Pool(twice=True, width=1, sandbox=Sandbox(Level(sys.argv[1]))) as pool:
    result = evaluate(Repository.at(Path.cwd()), twice=True, limits=Limits(time=30, cpu=1), pool=pool)
print(len(result.problems), len(result.stacks), me.num_fds() - before, len(me.children(recursive=True)))
"""


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


@pytest.mark.parametrize("highest", [Level.A, Level.B, Level.NONE])
def test_an_evaluation_leaves_no_process_and_no_descriptor(tmp_path: Path, highest: Level) -> None:
    repository(tmp_path, good="pass", loop="while True: pass", leave=LEAVE_BEHIND, gone="1 / 0")
    run = subprocess.run(
        [sys.executable, "-c", ALONE, highest], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    problems = 3 if highest is Level.NONE else 2  # confined, nothing can be left
    assert (run.stdout.split(), run.stderr) == ([str(problems), "0", "0", "0"], "")
    assert inside(tmp_path) == []


def test_whoever_left_a_process_is_told_and_nobody_else(tmp_path: Path) -> None:
    """They end at the same time, and what was left has made a session of its own, or is a daemon."""
    names = [f"{kind}{number}" for number in range(4) for kind in ("leaves", "good", "daemon")]
    with Pool(width=len(names), sandbox=UNCONFINED) as pool:
        pool.sandbox_report()
        instant = time.time() + 3  # all are evaluated by then, and wait for it
        wait = f"import time; time.sleep(max(0, {instant} - time.time()))"
        bodies = {"leaves": LEAVE_BEHIND, "good": "pass", "daemon": "import daemon; daemon.leave()"}
        found = repository(tmp_path, **{name: f"{wait}; {bodies[name[:-1]]}" for name in names})
        (tmp_path / "daemon.py").write_text(DAEMON)
        result = evaluate(found, pool=pool)
    told = {str(problem.source.file if problem.source else None): problem.message for problem in result.problems}
    left = "left 1 process running (they were ended)"
    assert told == {f"stacks/{name}.py": left for name in names if not name.startswith("good")}
    assert len(result.problems) == len(told)
    assert inside(tmp_path) == []


def test_nobody_is_told_of_a_process_that_still_dies_when_its_worker_was_told(tmp_path: Path) -> None:
    found = repository(tmp_path, first="import slow_to_die; slow_to_die.leave()", second="pass")
    (tmp_path / "slow_to_die.py").write_text(SLOW_TO_DIE)
    with (
        Pool(width=1, sandbox=UNCONFINED) as pool,
        subprocess.Popen([sys.executable, "-c", TRACER], cwd=tmp_path, stdin=subprocess.PIPE) as tracer,
    ):
        result = evaluate(found, pool=pool)
        assert [process for process in inside(tmp_path) if process.pid != tracer.pid], "it is dying yet"
    assert tracer.returncode == 0
    (problem,) = result.problems
    assert problem.message == "left 1 process running (they were ended)"
    assert problem.source is not None and problem.source.file == "stacks/first.py"
    assert inside(tmp_path) == []


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
        below: list[psutil.Process] = []

        def all_there() -> bool:
            at_work = staying(tmp_path)
            below[:] = above.children(recursive=True)
            # itself and two workers; below it those, and two zygotes
            return len(at_work) == 3 and len(below) == 4 and at_work <= {above, *below}

        assert eventually(all_there, 60)
    finally:
        os.kill(command.pid, how)
        command.wait(20)

    assert eventually(lambda: not any(process.is_running() for process in below))
    assert inside(tmp_path) == []


def test_stacks_are_evaluated_side_by_side(tmp_path: Path) -> None:
    body = "import time; start = time.monotonic(); time.sleep(3.0); fleet.export('nap', [start, time.monotonic()])"
    naps = {f"nap{number}": body for number in range(4)}
    found = repository(tmp_path, **naps)
    with Pool(width=4) as pool:
        evaluate(found, stacks=[], pool=pool)  # warm
        result = evaluate(found, pool=pool)
    assert not result.problems
    starts, ends = zip(*(stack.desired[0].exports["nap"] for stack in result.stacks), strict=True)
    assert len(starts) == 4
    assert max(starts) < min(ends), "each begins while all others sleep"
