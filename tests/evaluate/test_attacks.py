"""No attack succeeds in a sandbox, each does without the layers that stop it, and the others' evaluations go on.

The attacks of one sandbox are run together, by one warm pool; a test looks up how its own went.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import orjson
import pytest

from fleet.evaluate import Limits, Pool, answer
from fleet.evaluate.answer import Answer
from fleet.evaluate.job import Job, Task
from fleet.evaluate.result import Problem
from fleet.evaluate.sandbox.level import LAYERS, Layer, Level, Sandbox
from tests.evaluate.attacks import ATTACKS, OTHERS, PRELUDE, Attack, table

EVERY = 6
LIMITS = Limits(time=20, cpu=1, memory=512 << 20)
CLUSTER = {
    "name": "eu-1",
    "labels": {},
    "context": None,
    "secret": None,
    "pull": False,
    "source": {"file": "clusters/all.py", "line": 1},
}
STACK = "import fleet\n{prelude}\n@fleet.stack(clusters='eu-1')\ndef {name}(cluster):\n    won = False\n{body}\n"
STACK += "    fleet.export('won', bool(won))\n"
SAME_MACHINE = [one for one in ATTACKS if one.machine in ("", platform.machine())]


def stack_file(name: str, body: str, prelude: str = PRELUDE) -> str:
    return STACK.format(prelude=prelude, name=name, body=textwrap.indent(body, "    "))


def named(attack: Attack) -> str:
    return f"attack_{ATTACKS.index(attack)}"


class Place:
    """A tree with all attacks in it, and around it what they are after."""

    def __init__(self, top: Path) -> None:
        self.root = top / "tree"
        self.packages = str(top / "site-packages")
        for name in ("tree/stacks", "tree/.git", "home", "scratch", "site-packages", "cache/evaluations"):
            (top / name).mkdir(parents=True)
        (top / "home/token").write_text("top secret\n")
        (top / "scratch/victim").write_text("a file\n")
        (self.root / "link").symlink_to(top / "home/token")
        (self.root / ".git/config").write_text("url = https://me:hunter2@host/x\n")
        (self.root / "fleet.toml").write_text("")
        self._sockets = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        self._sockets[1].bind(("127.0.0.1", 0))
        for address in (f"\0fleet-{os.getpid()}", str(top / "daemon.sock")):
            self._sockets.append(socket.socket(socket.AF_UNIX))
            self._sockets[-1].bind(address)
            self._sockets[-1].listen(64)
        self.victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"VICTIM": "1"})
        libc = ctypes.CDLL(None)
        self._key = 0x0F1EE7 + os.getpid()
        self._segment = libc.shmget(self._key, 4096, 0o1600)
        target = {
            "secret": str(top / "home/token"),
            "scratch": str(top / "scratch"),
            "packages": self.packages,
            "cache": str(top / "cache"),
            "tcp": self._address(0),
            "udp": self._address(1),
            "abstract": f"fleet-{os.getpid()}",
            "daemon": str(top / "daemon.sock"),
            "victim": self.victim.pid,
            "key": self._key,
        }
        (self.root / "target.json").write_bytes(orjson.dumps(target))
        for attack in SAME_MACHINE:
            (self.root / f"stacks/{named(attack)}.py").write_text(stack_file(named(attack), attack.body))
        (self.root / "stacks/bystander.py").write_text(stack_file("bystander", "won = True", prelude=""))

    def _address(self, index: int) -> str:
        port = self._sockets[index].getsockname()[1]
        packed = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton("127.0.0.1") + bytes(8)
        return packed.decode("latin-1")

    def close(self) -> None:
        for one in self._sockets:
            one.close()
        self.victim.kill()
        self.victim.communicate()
        ctypes.CDLL(None).shmctl(self._segment, 0, None)

    def job(self, name: str, limits: Limits = LIMITS) -> Job:
        return Job(Task.STACKS, str(self.root), (f"stacks/{name}.py",), limits, ("stacks",), (CLUSTER,))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("attacked"))
    try:
        yield made
    finally:
        _attacked.cache_clear()
        made.close()


def run(pool: Pool, jobs: list[Job]) -> list[tuple[Answer, tuple[Problem, ...]]]:
    return [answer.read(job, outcome) for job, outcome in zip(jobs, pool.run(jobs), strict=True)]


def said(result: tuple[Answer, tuple[Problem, ...]]) -> str:
    """'won', 'lost', or what the parent was told."""
    got, problems = result
    if problems:
        left = any("running (they were ended)" in problem.message for problem in problems)
        return "won" if left else problems[0].message
    return "won" if got.stacks[0].desired[0].exports["won"] else "lost"


@cache
def _attacked(place: Place, level: Level, without: frozenset[Layer]) -> dict[str, str]:
    """How each attack went, of those that this sandbox is for."""
    chosen = [
        attack
        for attack in SAME_MACHINE
        if level in attack.levels and (not without or (level in attack.shown_at and without == weakened(attack, level)))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", "/nowhere")  # one of the few that a zygote is started with
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (place.packages, os.environ.get("PYTHONPATH")))))
        pool = Pool(width=4, sandbox=Sandbox(level, without))
    with pool:
        given = pool.given()
        if given.level is not level:
            pytest.skip(f"this machine does not give level {level}: {given.why_not[level]}")
        attacks = run(pool, _between_bystanders(place, [place.job(named(attack)) for attack in chosen]))
    heard = [said(result) for result in attacks]
    assert {*heard[::EVERY]} == {"won"}, "the evaluations of others go on meanwhile"
    del heard[::EVERY]
    return {attack.name: one for attack, one in zip(chosen, heard, strict=True)}


def _between_bystanders(place: Place, jobs: list[Job]) -> list[Job]:
    """The first of every few jobs, and so also the first of all, is somebody else's."""
    size = EVERY - 1
    groups = [jobs[start : start + size] for start in range(0, len(jobs), size)]
    return [job for group in groups for job in (place.job("bystander"), *group)]


def weakened(attack: Attack, level: Level) -> frozenset[Layer]:
    return frozenset(attack.layers) & LAYERS[level]


TRIED = [(attack, level) for attack in SAME_MACHINE for level in attack.levels]
CASES = [pytest.param(attack, level, id=f"{level}-{attack.name}") for attack, level in TRIED]
SHOWN = [case for case, (attack, level) in zip(CASES, TRIED, strict=True) if level in attack.shown_at]


@pytest.mark.parametrize(("attack", "level"), CASES)
def test_it_fails_in_the_sandbox(place: Place, attack: Attack, level: Level) -> None:
    assert _attacked(place, level, frozenset())[attack.name] != "won"
    assert place.victim.poll() is None


@pytest.mark.parametrize(("attack", "level"), SHOWN)
def test_it_succeeds_without_what_stops_it(place: Place, attack: Attack, level: Level) -> None:
    assert _attacked(place, level, weakened(attack, level))[attack.name] == "won"


def test_every_attack_is_named_once_and_stopped_by_something() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 40
    for attack in ATTACKS:
        assert all(frozenset(attack.layers) & LAYERS[level] for level in attack.levels)
        assert set(attack.shown_at) & set(attack.levels)
    assert {layer for attack in ATTACKS for layer in attack.layers} == set(Layer)


def test_the_table_in_the_documentation_is_this_list() -> None:
    here = Path(__file__).parent
    text = (here.parents[1] / "docs/security.md").read_text()
    assert table() in text, (
        "put into docs/security.md what this prints: python -c 'from tests.evaluate.attacks import *; print(table())'"
    )
    for *_, test in OTHERS:
        file, _, function = test.partition("::")
        assert f"def {function}(" in (here / file).read_text()


def test_nothing_of_an_evaluation_is_left_for_the_next(tmp_path: Path) -> None:
    poison = "import builtins, sys\nbuiltins.poisoned = True\n"
    poison += "class Hook:\n    def find_spec(self, name, *_):\n        raise ImportError('hooked')\n"
    poison += "sys.meta_path.insert(0, Hook())\nimport fleet\nfleet.Manifest = None\n"
    seen = "import builtins\nif hasattr(builtins, 'poisoned'): raise SystemExit('poisoned')\nimport colorsys, fleet\n"
    (tmp_path / "clusters").mkdir()
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks/attack.py").write_text(poison)
    (tmp_path / "stacks/next.py").write_text(seen + "fleet.Manifest.__name__\n")
    (tmp_path / "clusters/a.py").write_text(poison)
    (tmp_path / "clusters/b.py").write_text(seen)

    def job(*files: str) -> Job:
        task = Task.CLUSTERS if files[0].startswith("clusters") else Task.STACKS
        return Job(task, str(tmp_path), files, LIMITS, clusters=(CLUSTER,))

    with Pool(width=1) as pool:
        attack, after = run(pool, [job("stacks/attack.py"), job("stacks/next.py")])
        ((_, problems),) = run(pool, [job("clusters/a.py", "clusters/b.py")])  # in one process, as it is for clusters
    assert (attack[1], after[1]) == ((), ())
    assert "ended the process" in problems[0].message, "what is looked for is there to be found"


def test_what_cannot_be_confined_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone/a.py").write_text("import fleet\n")
    job = Job(Task.STACKS, str(tmp_path / "gone"), ("a.py",), LIMITS)
    for level in (Level.A, Level.B):
        with Pool(sandbox=Sandbox(level)) as pool:
            assert run(pool, [job])[0][1] == ()
            (tmp_path / "gone").rename(tmp_path / "away")
            ((_, (problem,)),) = run(pool, [job])
            (tmp_path / "away").rename(tmp_path / "gone")
        assert "was not run, for the sandbox could not be made" in problem.message
