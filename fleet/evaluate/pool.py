"""The parent's side of the boundary: start zygotes, hand out jobs to as many workers as there are cores, collect.

What comes back is bytes, a capped amount of them, and how the worker ended. Nothing of the user's code is imported,
unpickled or run here. Closing the pool, or this process dying in whatever way, closes the control sockets, and with
that the zygotes end and everything under them.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import IO, Self

import orjson

from fleet.errors import FleetError
from fleet.evaluate import protocol
from fleet.evaluate.perturbation import OTHER_SEED, OTHER_TIME_ZONE, SEED, TIME_ZONE
from fleet.evaluate.protocol import KILL_SECONDS, Job
from fleet.evaluate.sandbox.cgroup import WorkerCgroup
from fleet.evaluate.sandbox.level import Level, Sandbox, SandboxReport, as_bits

IN_ALL = 4  # times the largest result of one job: what all jobs of a run may answer together
LAST = 10_000  # bytes of what a job printed that are kept: the others wait until the whole run is done
_STARTING = 30.0  # for a zygote to import the model on a busy machine
_KEPT = (
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "SYSTEMROOT",
    "TMPDIR",
)  # how this Python finds its parts


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a worker ended and what it left. `stream` is what it wrote as its answer: not to be believed unread."""

    stream: bytes
    output: bytes
    code: int = 0
    left: int = 0
    overtime: bool = False
    oversized: bool = False
    lost: bool = False  # its zygote died under it
    surplus: bool = False  # with what the others answered it is more than is taken
    late: bool = False  # its turn did not come in time, so it was not begun


class _Process:
    """A zygote, as its parent has it."""

    def __init__(self, sandbox: Sandbox, *, disturbed: bool) -> None:
        self._given: SandboxReport | None = None
        self.control, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        seed, zone = (OTHER_SEED, OTHER_TIME_ZONE) if disturbed else (SEED, TIME_ZONE)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {"PYTHONHASHSEED": seed, "TZ": zone, "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
        environment["PYDANTIC_DISABLE_PLUGINS"] = "1"  # no code of others in the model, and a quicker start
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "fleet.evaluate.worker.zygote",
                str(theirs.fileno()),
                orjson.dumps(sandbox.data()).decode(),
            ]
            + (["disturbed"] if disturbed else []),
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for us; we tell it
        )
        theirs.close()

    def given(self) -> SandboxReport:
        """The sandbox that its workers are put into; waits until it is warm."""
        if self._given is None:
            self.control.settimeout(_STARTING)
            try:
                hello = protocol.receive_hello(self.control)
            except TimeoutError:
                raise FleetError("the evaluation could not start in time", hint="is the machine overloaded?") from None
            finally:
                self.control.settimeout(None)
            if hello is None:
                raise self.died() or FleetError("the evaluation could not start: it was ended")
            self._given = SandboxReport.of(orjson.loads(hello))
        return self._given

    def died(self) -> FleetError | None:
        """Once its socket is closed: the error when it ended by itself, which only a fault of ours makes it do."""
        code = self._process.wait()
        if code <= 0:  # by a signal: user code killed it
            return None
        self._errors.seek(0)
        text = self._errors.read(100_000).decode(errors="replace").strip()
        last = text.splitlines()[-1] if text else f"exit code {code}"
        return FleetError(f"the evaluation could not start: {last}", hint="is the installation of fleet complete?")

    def close(self) -> None:
        self.control.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()
        if self._given is not None:
            WorkerCgroup(self._given.places).remove()


@dataclass(slots=True)
class _Taken:
    """What the jobs of one run have answered together."""

    bytes: int = 0


@dataclass(slots=True)
class _Run:
    index: int
    job: Job
    taken: _Taken
    process: _Process
    pipe: int
    output: IO[bytes]
    deadline: float
    stream: bytearray = field(default_factory=bytearray)
    oversized: bool = False
    surplus: bool = False

    def read(self) -> bool:
        """Take what is there; False at the end."""
        if self.surplus:
            return False
        try:
            part = os.read(self.pipe, 1 << 20)
        except BlockingIOError:
            return False
        if len(self.stream) + len(part) > self.job.limits.result + (1 << 20):  # the notes come on top
            self.oversized = True
            return False
        if self.taken.bytes + len(part) > IN_ALL * self.job.limits.result:
            self.surplus = True
            self.taken.bytes -= len(self.stream)
            self.stream.clear()
            return False
        self.taken.bytes += len(part)
        self.stream += part
        return bool(part)

    def outcome(self, ended: protocol.Ended | None) -> Outcome:
        while self.read():
            pass
        printed = min(os.fstat(self.output.fileno()).st_size, self.job.limits.output)
        output = os.pread(self.output.fileno(), LAST, max(0, printed - LAST))
        if ended is None:
            return Outcome(bytes(self.stream), output, lost=True)
        about = (ended.code, ended.left, ended.overtime, self.oversized)
        return Outcome(bytes(self.stream), output, *about, surplus=self.surplus)

    def close(self) -> None:
        os.close(self.pipe)
        self.output.close()


def _weakness(given: SandboxReport) -> int:
    return list(Level).index(given.level)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool:
    """Zygotes and the workers under them. `twice` starts the second, disturbed zygote at once beside the first.

    Workers are put into the best sandbox that the machine gives, unless `sandbox` says less.
    """

    def __init__(self, *, twice: bool = False, width: int | None = None, sandbox: Sandbox | None = None) -> None:
        self._width = width or _cores()
        self._numbers = count(1)
        self._sandbox = sandbox or Sandbox()
        self._processes = {
            disturbed: _Process(self._sandbox, disturbed=disturbed)
            for disturbed in ((False, True) if twice else (False,))
        }

    def given(self) -> SandboxReport:
        """The sandbox that jobs of this pool are run in: of two zygotes, the weaker one."""
        return max((self._process(disturbed).given() for disturbed in self._processes or (False,)), key=_weakness)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.control.close()  # all are told before any is waited for
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def run(self, jobs: Sequence[Job], deadline: float = math.inf) -> list[Outcome]:
        """All jobs, as many at a time as there are cores; the outcomes in the order of the jobs.

        None is begun after the deadline, of `time.monotonic`.
        """
        waiting = deque(enumerate(jobs))
        taken = _Taken()
        running: dict[int, _Run] = {}
        outcomes: dict[int, Outcome] = {}
        with selectors.DefaultSelector() as selector:
            try:
                while waiting or running:
                    while waiting and len(running) < self._width:
                        if time.monotonic() > deadline:
                            outcomes |= {index: Outcome(b"", b"", late=True) for index, _ in waiting}
                            waiting.clear()
                            break
                        number, run = self._start(*waiting.popleft(), taken)
                        running[number] = run
                        selector.register(run.pipe, selectors.EVENT_READ, number)
                        if run.process.control not in selector.get_map():
                            selector.register(run.process.control, selectors.EVENT_READ, run.process)
                    self._collect(selector, running, outcomes)
            finally:
                for run in running.values():  # only after an error
                    run.close()
                    self._discard(run.process)
        return [outcomes[index] for index in range(len(jobs))]

    def _process(self, disturbed: bool) -> _Process:
        if disturbed not in self._processes:
            self._processes[disturbed] = _Process(self._sandbox, disturbed=disturbed)
        return self._processes[disturbed]

    def _start(self, index: int, job: Job, taken: _Taken) -> tuple[int, _Run]:
        process = self._process(job.disturbed)
        process.given()  # and so it is warm; what it says from here on is how runs end
        number = next(self._numbers)
        pipe, theirs = os.pipe()
        os.set_blocking(pipe, False)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the run
        seconds = job.limits.time + KILL_SECONDS
        run = _Run(index, job, taken, process, pipe, output, time.monotonic() + seconds + _STARTING)
        try:
            less = as_bits(job.without)
            about = (seconds, job.limits.memory, less, orjson.dumps(job))
            request = protocol.Request(protocol.RUN_REQUEST, number, *about, (theirs, output.fileno()))
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # it is dead; its socket says so in a moment
                protocol.send_request(process.control, request)
        finally:
            os.close(theirs)
        return number, run

    def _collect(
        self, selector: selectors.BaseSelector, running: dict[int, _Run], outcomes: dict[int, Outcome]
    ) -> None:
        for key, _ in selector.select(1.0):
            if isinstance(key.data, _Process):
                self._hear(key.data, selector, running, outcomes)
            elif key.data in running:
                run = running[key.data]
                if not run.read():
                    selector.unregister(run.pipe)  # closed, or more than we take; the end is heard from the zygote
                    if run.oversized or run.surplus:
                        protocol.send_request(run.process.control, protocol.Request(protocol.KILL_REQUEST, key.data))
        for run in list(running.values()):
            if run.deadline < time.monotonic() and run.process in self._processes.values():
                self._discard(run.process)  # it does not keep time: end it; its workers count as lost

    def _hear(
        self,
        process: _Process,
        selector: selectors.BaseSelector,
        running: dict[int, _Run],
        outcomes: dict[int, Outcome],
    ) -> None:
        try:
            ended = protocol.receive_ended(process.control)
        except OSError:
            ended = None
        if ended is not None:
            self._finish(ended.run, ended, selector, running, outcomes)
            return
        selector.unregister(process.control)
        for number in [number for number, run in running.items() if run.process is process]:
            self._finish(number, None, selector, running, outcomes)
        error = process.died()
        self._discard(process)
        if error:
            raise error

    @staticmethod
    def _finish(
        number: int,
        ended: protocol.Ended | None,
        selector: selectors.BaseSelector,
        running: dict[int, _Run],
        outcomes: dict[int, Outcome],
    ) -> None:
        run = running.pop(number)
        with contextlib.suppress(KeyError):
            selector.unregister(run.pipe)
        outcomes[run.index] = run.outcome(ended)
        run.close()

    def _discard(self, process: _Process) -> None:
        for disturbed, known in list(self._processes.items()):
            if known is process:
                del self._processes[disturbed]
        process.close()
