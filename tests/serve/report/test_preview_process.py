"""Previews of what strangers wrote: each in a process that has bounds, ends with the service, and holds up nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fleet.forge.detect import token_variables
from fleet.serve.child_process import MIB, ChildEndedError, ChildLimits, ask_child
from fleet.serve.options import SHARED, RepositoryScope, parse_scopes
from fleet.serve.report import preview_process
from fleet.serve.report.preview_process import PreviewText, preview
from tests.serve.forks import ATTACKS, LOOPS, OUTCOMES, STACK, Fork

BRIEF = replace(preview_process.OF_FORKS, seconds=60)
# A child that does not listen to anybody, as one does not whose code in C never lets go of the interpreter.
DEAF = """\
import os, signal, sys
from fleet.serve.child_process import begin_child, bound_memory
task, bounds = begin_child()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
what = task.decode()
if what == "memory":
    bound_memory(bounds)
    kept = [bytes(1 << 20) for _ in range(4096)]
if what == "environment":
    print(*os.environ, sep="\\n")
    sys.exit()
if what == "exit":
    sys.exit(3)
if what == "answer":
    sys.stdout.buffer.write(bytes(bounds.answer + 100 * 1024 * 1024))
print(os.getpid(), file=open("pid", "w"))
while True:
    if what == "wait":
        signal.pause()
"""


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Fork:
    return Fork.make(tmp_path_factory.mktemp("fork"))


@pytest.fixture
def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the child writes its number down."""
    (tmp_path / "deaf_child.py").write_text(DEAF)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(preview_process.__file__).parents[3]}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_preview_says_what_the_merge_changes(fork: Fork) -> None:
    head = fork.head({"stacks/shop.py": STACK.format(name="shop", value="2")})
    told = asyncio.run(preview(fork.task(head, page="https://fleet.example.com/previews/x")))
    assert (told.state, told.line) == ("success", "1 to update, 1 unchanged")
    assert 'data.a: "1" → "2"' in told.parts[0]
    assert "https://fleet.example.com/previews/x" in told.parts[0]
    assert told.page.startswith("<!doctype html>")


@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_head_does_to_the_parent_of_its_evaluation_is_told_within_the_bounds(
    fork: Fork, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told of as a mistake in the head, if it is one, long before it has to be killed."""
    monkeypatch.setattr(preview_process, "OF_FORKS", BRIEF)
    told = asyncio.run(preview(fork.task(fork.head(ATTACKS[name]))))
    assert OUTCOMES[name] in f"{told.line} {told.parts[0]}"


def test_one_that_takes_long_holds_up_nobody_and_leaves_nothing_when_it_is_ended(fork: Fork) -> None:
    looping, changing = fork.head(LOOPS), fork.head({"stacks/shop.py": STACK.format(name="shop", value="3")})

    def children() -> list[int]:
        return [one.pid for one in psutil.Process().children(recursive=True)]

    before, its = children(), list[int]()

    async def both() -> tuple[bool, PreviewText]:
        attack = asyncio.create_task(preview(fork.task(looping)))
        while len(its) < 3:
            await asyncio.sleep(0.1)
            its[:] = set(children()) - set(before)
        other = await preview(fork.task(changing))
        meanwhile = not attack.done()
        attack.cancel()
        await asyncio.gather(attack, return_exceptions=True)
        return meanwhile, other

    meanwhile, other = asyncio.run(both())
    assert other.line == "1 to update, 1 unchanged"
    assert meanwhile, "nobody waited for it"
    assert len(its) >= 3, "the child, a zygote and a worker"
    end = time.monotonic() + 20
    while any(map(runs, its)):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("what", "bounds", "reason"),
    [
        ("loop", ChildLimits(1, 60, 512 * MIB), "it took longer than 1 s"),
        ("loop", ChildLimits(60, 1, 512 * MIB), "it used more than 1 s of CPU time"),
        ("memory", ChildLimits(60, 60, 256 * MIB), "it needed more than 256 MiB of memory"),
        ("answer", ChildLimits(60, 60, 512 * MIB), "what it came to is more than 24 MiB"),
        ("exit", ChildLimits(60, 60, 512 * MIB), "it ended with exit code 3"),
    ],
)
def test_whatever_a_child_does_it_ends_and_says_why(deaf: Path, what: str, bounds: ChildLimits, reason: str) -> None:
    with pytest.raises(ChildEndedError, match=reason):
        asyncio.run(ask_child("deaf_child", what.encode(), bounds))
    if (deaf / "pid").exists():
        assert not runs(int((deaf / "pid").read_text()))


def test_a_child_has_no_token_of_a_forge_but_the_one_that_its_git_may_need(
    deaf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = parse_scopes(["a", "b"], [], ["a=A_TOKEN", "b=B_TOKEN"])
    secrets = {*token_variables(), "A_TOKEN", "B_TOKEN", "FLEET_WEBHOOK_SECRET", "FLEET_NOTIFY_SECRET"}
    for name in secrets:
        monkeypatch.setenv(name, "secret")

    def inherited(scope: RepositoryScope, *, pushes: bool) -> set[str]:
        asking = ask_child(
            "deaf_child", b"environment", ChildLimits(60, 60, 512 * MIB), withheld=scope.withheld(pushes=pushes)
        )
        names = set(asyncio.run(asking).decode().split())
        assert "PATH" in names
        return names & secrets

    assert inherited(scopes["a"], pushes=False) == set()
    assert inherited(scopes["a"], pushes=True) == {"A_TOKEN"}
    shared = {*token_variables(), "FLEET_WEBHOOK_SECRET", "FLEET_NOTIFY_SECRET"}
    assert inherited(SHARED, pushes=False) & shared == set()
    assert inherited(SHARED, pushes=True) & shared == set(token_variables()), "it is the one of all repositories"


def test_who_stops_waiting_has_the_child_killed(deaf: Path) -> None:
    async def stopped() -> None:
        asking = asyncio.create_task(ask_child("deaf_child", b"wait", ChildLimits(60, 60, 512 * MIB)))
        while not (deaf / "pid").exists() or not (deaf / "pid").read_text():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(stopped())
    assert not runs(int((deaf / "pid").read_text()))


def test_a_child_ends_with_the_service_also_when_that_is_killed(deaf: Path) -> None:
    (deaf / "parent.py").write_text(
        "import asyncio\nfrom fleet.serve.child_process import ChildLimits, ask_child\n"
        "asyncio.run(ask_child('deaf_child', b'wait', ChildLimits(100, 60, 1 << 29)))\n"
    )
    parent = subprocess.Popen([sys.executable, "parent.py"], cwd=deaf)
    end = time.monotonic() + 60
    while not (deaf / "pid").exists() or not (deaf / "pid").read_text():
        assert time.monotonic() < end
        time.sleep(0.05)
    child = int((deaf / "pid").read_text())
    assert os.getpgid(child) == child
    assert psutil.Process(child).nice() >= 10
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while runs(child):
        assert time.monotonic() < end
        time.sleep(0.05)
