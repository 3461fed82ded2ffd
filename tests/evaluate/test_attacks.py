"""No attack succeeds in a sandbox, each does without its defence, and the others' evaluations go on meanwhile.

Where an attack has several defences each of them stops it alone: without all of them it succeeds. The attacks that one
warm pool can make are made together; a test looks up how its own went.
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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.evaluate import Limits, Pool, answer
from fleet.evaluate.answer import WorkerAnswer
from fleet.evaluate.protocol import Job, Task
from fleet.evaluate.result import Problem
from fleet.evaluate.sandbox import landlock
from fleet.evaluate.sandbox.level import LAYERS, OF_ZYGOTE, Layer, Level, Sandbox, SandboxReport
from tests.evaluate.attacks import ATTACKS, OTHERS, PRELUDE, Attack, table

EVERY = 6
LIMITS = Limits(time=60, cpu=2, memory=512 << 20)
CROWD = Limits(time=60, cpu=5, memory=256 << 20)
CLUSTER = {
    "name": "eu-1",
    "labels": {},
    "context": None,
    "secret": None,
    "pull": False,
    "source": {"file": "clusters/all.py", "line": 1},
}
STACK = "import fleet\nNAME = {name!r}\n{prelude}\n@fleet.stack(clusters='eu-1')\ndef {name}(cluster):\n"
STACK += "    won = False\n{body}\n    fleet.export('won', bool(won))\n"
LEFT = "running (they were ended)"
Result = tuple[WorkerAnswer, tuple[Problem, ...]]
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
        self.locked = str(top / "locked")
        for name in ("tree/stacks", "tree/.git", "home", "scratch", "site-packages", "cache/evaluations", "locked"):
            (top / name).mkdir(parents=True)
        (top / "home/token").write_text("top secret\n")
        (top / "locked/greeting.py").write_text("x = 0\n")
        (self.root / "link").symlink_to(top / "home/token")
        (self.root / ".git/config").write_text("url = https://me:hunter2@host/x\n")
        (self.root / "fleet.toml").write_text("")
        self._sockets = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        self._sockets[1].bind(("127.0.0.1", 0))
        for address in (f"\0fleet-{os.getpid()}", str(top / "daemon.sock")):
            self._sockets.append(socket.socket(socket.AF_UNIX))
            self._sockets[-1].bind(address)
            self._sockets[-1].listen(64)
        shown = "import ctypes; b = ctypes.create_string_buffer(8); print(ctypes.addressof(b), flush=True); input()"
        self.victim = subprocess.Popen(
            [sys.executable, "-c", shown], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"VICTIM": "1"}
        )
        assert self.victim.stdout is not None
        libc = ctypes.CDLL(None)
        self._key = 0x0F1EE7 + os.getpid()
        self._segment = libc.shmget(self._key, 4096, 0o1600)
        target = {
            "secret": str(top / "home/token"),
            "scratch": str(top / "scratch"),
            "packages": self.packages,
            "cache": str(top / "cache"),
            "locked": self.locked,
            "at": int(self.victim.stdout.readline()),
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
            (top / "scratch" / named(attack)).write_text("a file\n")
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

    def job(self, name: str, limits: Limits = LIMITS, without: Iterable[Layer] = ()) -> Job:
        return Job(
            Task.STACKS,
            str(self.root),
            (f"stacks/{name}.py",),
            limits,
            importable=("stacks",),
            packages=self.locked,
            clusters=(CLUSTER,),
            without=tuple(sorted(without)),
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("attacked"))
    try:
        yield made
    finally:
        _heard.cache_clear()
        made.close()


def run(pool: Pool, jobs: list[Job]) -> list[Result]:
    return [answer.read_answer(job, outcome) for job, outcome in zip(jobs, pool.run(jobs), strict=True)]


def said(result: Result) -> str:
    """'won', 'lost', or what the parent was told."""
    got, problems = result
    if problems:
        return problems[0].message
    return "won" if got.stacks[0].desired[0].exports["won"] else "lost"


@dataclass(frozen=True)
class Trial:
    """An attack at a level, with some defences left out."""

    attack: Attack
    level: Level
    without: frozenset[Layer] = frozenset()

    @property
    def room(self) -> Room:
        return Room(self.level, self.without & OF_ZYGOTE, crowd=self.attack.crowd and Layer.SECCOMP in self.without)

    def job(self, place: Place) -> Job:
        limits = CROWD if self.room.crowd else replace(LIMITS, time=self.attack.seconds)
        return place.job(named(self.attack), limits, self.without - OF_ZYGOTE)

    def succeeded(self, heard: str) -> bool:
        return LEFT in heard if self.attack.leaves else heard == "won"

    def __str__(self) -> str:
        return f"{self.level}-{self.attack.name}"


@dataclass(frozen=True)
class Room:
    """What the trials that one warm pool can run have in common."""

    level: Level
    without: frozenset[Layer]
    crowd: bool  # one after the other: what one takes is not there for others

    def __str__(self) -> str:
        return "-".join([self.level, *(f"without {layer}" for layer in sorted(self.without)), *self.crowd * ["crowd"]])

    def pool(self, place: Place) -> Pool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_LIBRARY_PATH", "/nowhere")  # one of the few that a zygote is started with
            patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (place.packages, os.environ.get("PYTHONPATH")))))
            return Pool(width=1 if self.crowd else 6, sandbox=Sandbox(self.level, self.without, loose=True))


def _trials() -> Iterator[tuple[str, Trial, Layer | None]]:
    """Whole; without any of its defences; with one of several alone."""
    for attack in SAME_MACHINE:
        for level in attack.levels:
            yield "whole", Trial(attack, level), None
            if not attack.shown_at(level):
                continue
            defences = attack.defences(level)
            everything = frozenset({*defences, *attack.also}) & LAYERS[level]
            yield "without", Trial(attack, level, everything), None
            for alone in defences if len(everything) > 1 else ():
                yield "alone", Trial(attack, level, everything - {alone}), alone


TRIALS = list(_trials())
ROOMS = sorted({trial.room for _, trial, _ in TRIALS}, key=str)


@dataclass(frozen=True)
class Heard:
    """What a room was, how each attack in it went, and what became of the others' evaluations."""

    given: SandboxReport
    trials: dict[Trial, str]
    others: list[Result]


def heard_in(place: Place, room: Room) -> Heard:
    heard = _heard(place, room)
    if heard.given.level is not room.level:
        pytest.skip(f"this machine does not give level {room.level}: {heard.given.why_not[room.level]}")
    return heard


@cache
def _heard(place: Place, room: Room) -> Heard:
    trials = [trial for _, trial, _ in TRIALS if trial.room == room]
    trials.sort(key=lambda trial: trial.attack.seconds)  # those that sleep begin first
    with room.pool(place) as pool:
        given = pool.sandbox_report()
        if given.level is not room.level:
            return Heard(given, {}, [])
        bystander = place.job("bystander", CROWD if room.crowd else LIMITS)
        results = run(pool, _between(bystander, [trial.job(place) for trial in trials]))
    others = results[::EVERY]
    del results[::EVERY]
    return Heard(given, dict(zip(trials, map(said, results), strict=True)), others)


def _between(bystander: Job, jobs: list[Job]) -> list[Job]:
    """The first of every few jobs, and so also the first of all, is somebody else's."""
    size = EVERY - 1
    groups = [jobs[start : start + size] for start in range(0, len(jobs), size)]
    return [job for group in groups for job in (bystander, *group)]


def _cases(kind: str) -> list[Any]:
    return [
        pytest.param(trial, layer, id=f"{trial}-{layer}") if layer else pytest.param(trial, id=str(trial))
        for what, trial, layer in TRIALS
        if what == kind
    ]


@pytest.mark.parametrize("trial", _cases("whole"))
def test_it_fails_in_the_sandbox(place: Place, trial: Trial) -> None:
    heard = heard_in(place, trial.room).trials[trial]
    assert not trial.succeeded(heard)
    assert place.victim.poll() is None


@pytest.mark.parametrize("trial", _cases("without"))
def test_it_succeeds_without_its_defence(place: Place, trial: Trial) -> None:
    heard = heard_in(place, trial.room).trials[trial]
    assert trial.succeeded(heard), heard


@pytest.mark.parametrize(("trial", "layer"), _cases("alone"))
def test_each_of_several_defences_stops_it_alone(place: Place, trial: Trial, layer: Layer) -> None:
    if layer is Layer.LANDLOCK and landlock.version() < trial.attack.landlock:
        pytest.skip(f"Landlock {landlock.version()} does not know it yet")
    heard = heard_in(place, trial.room)
    if layer is Layer.GROUP and not heard.given.group:
        pytest.skip(f"this machine gives no control group: {heard.given.why_no_group}")
    assert not trial.succeeded(heard.trials[trial])


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_the_evaluations_of_others_go_on_meanwhile(place: Place, room: Room) -> None:
    others = heard_in(place, room).others
    assert others
    for got, problems in others:
        assert problems == ()
        assert got.stacks[0].desired[0].exports == {"won": True}


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_nobody_is_blamed_for_a_process_that_another_left(place: Place, room: Room) -> None:
    told = [trial for trial, heard in heard_in(place, room).trials.items() if LEFT in heard]
    assert [str(trial) for trial in told if not trial.attack.leaves] == []


def test_every_attack_is_named_once_and_stopped_by_something() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 40
    for attack in ATTACKS:
        assert all(attack.defences(level) for level in attack.levels)
        assert any(attack.shown_at(level) for level in attack.levels)
    assert {layer for attack in ATTACKS for layer in (*attack.layers, *attack.also)} == set(Layer)


def test_the_table_in_the_documentation_is_this_list() -> None:
    here = Path(__file__).parent
    text = (here.parents[1] / "docs/security.md").read_text()
    assert table() in text, (
        "put into docs/security.md what this prints: python -c 'from tests.evaluate.attacks import *; print(table())'"
    )
    for other in OTHERS:
        file, _, function = other.test.partition("::")
        assert f"def {function}(" in (here / file).read_text()


@pytest.mark.parametrize("level", [Level.A, Level.B])
def test_nothing_of_an_evaluation_is_left_for_the_next(tmp_path: Path, level: Level) -> None:
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

    with Pool(width=1, sandbox=Sandbox(level)) as pool:
        _needs(pool, level)
        attack, after = run(pool, [job("stacks/attack.py"), job("stacks/next.py")])
        ((_, problems),) = run(pool, [job("clusters/a.py", "clusters/b.py")])  # in one process, as it is for clusters
    assert (attack[1], after[1]) == ((), ())
    assert "ended the process" in problems[0].message, "what is looked for is there to be found"


@pytest.mark.parametrize("level", [Level.A, Level.B])
def test_what_cannot_be_confined_is_not_run(tmp_path: Path, level: Level) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone/a.py").write_text("import fleet\n")
    job = Job(Task.STACKS, str(tmp_path / "gone"), ("a.py",), LIMITS)
    with Pool(sandbox=Sandbox(level)) as pool:
        _needs(pool, level)
        assert run(pool, [job])[0][1] == ()
        (tmp_path / "gone").rename(tmp_path / "away")
        ((_, (problem,)),) = run(pool, [job])
    assert "was not run, for the sandbox could not be made" in problem.message


def _needs(pool: Pool, level: Level) -> None:
    given = pool.sandbox_report()
    if given.level is not level:
        pytest.skip(f"this machine does not give level {level}: {given.why_not[level]}")
