"""The parent's side of the boundary: it starts zygotes, hands jobs to as many workers as there are cores, and collects.

A worker's outcome is a bounded number of bytes, and how the worker ended. No user code is imported, unpickled or run
here. When the pool is closed, or this process dies in any way, the control sockets close; then the zygotes end, and
with them all processes under them.
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

IN_ALL = 4  # times the result limit of one job: the limit of all answers of a run together
LAST = 10_000  # bytes of printed output that are kept per job: they stay in memory until the whole run is done
_STARTING = 30.0  # seconds for a zygote to import the model on a busy machine
_KEPT = (
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "SYSTEMROOT",
    "TMPDIR",
)  # variables by which this Python finds its parts


@dataclass(frozen=True, slots=True)
class WorkerOutcome:
    """The end of a worker and what it left. `stream` is what it wrote as its answer: not to be trusted unread."""

    stream: bytes
    output: bytes
    code: int = 0
    left: int = 0
    overtime: bool = False
    oversized: bool = False
    lost: bool = False  # its zygote died under it
    surplus: bool = False  # together with the other answers it exceeds the limit of a run
    late: bool = False  # it was not started, because the deadline had passed


class _Process:
    """The parent's handle of a zygote."""

    def __init__(self, sandbox: Sandbox, *, disturbed: bool) -> None:
        self._sandbox_report: SandboxReport | None = None
        self.control, zygote_end = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        seed, zone = (OTHER_SEED, OTHER_TIME_ZONE) if disturbed else (SEED, TIME_ZONE)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {"PYTHONHASHSEED": seed, "TZ": zone, "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
        environment["PYDANTIC_DISABLE_PLUGINS"] = "1"  # no code of other packages in the model, and a quicker start
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "fleet.evaluate.worker.zygote",
                str(zygote_end.fileno()),
                orjson.dumps(sandbox.data()).decode(),
            ]
            + (["disturbed"] if disturbed else []),
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[zygote_end.fileno()],
            start_new_session=True,  # Ctrl-C goes to the parent alone, which then ends the zygote
        )
        zygote_end.close()

    def sandbox_report(self) -> SandboxReport:
        """Return the sandbox of the workers, once the zygote is warm; raise FleetError if it does not start."""
        if self._sandbox_report is None:
            self.control.settimeout(_STARTING)
            try:
                hello = protocol.receive_hello(self.control)
            except TimeoutError:
                raise FleetError("the evaluation could not start in time", hint="is the machine overloaded?") from None
            finally:
                self.control.settimeout(None)
            if hello is None:
                raise self.death_error() or FleetError("the evaluation could not start: it was ended")
            self._sandbox_report = SandboxReport.of(orjson.loads(hello))
        return self._sandbox_report

    def death_error(self) -> FleetError | None:
        """Return the error of a zygote that ended by itself, which only a fault of fleet causes; None if it was killed.

        To be called once its socket is closed.
        """
        code = self._process.wait()
        if code <= 0:  # killed by a signal, which user code may have sent
            return None
        self._errors.seek(0)
        text = self._errors.read(100_000).decode(errors="replace").strip()
        last = text.splitlines()[-1] if text else f"exit code {code}"
        return FleetError(f"the evaluation could not start: {last}", hint="is the installation of fleet complete?")

    def close(self) -> None:
        """End the zygote and remove its control group."""
        self.control.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()
        if self._sandbox_report is not None:
            WorkerCgroup(self._sandbox_report.places).remove()


@dataclass(slots=True)
class _AnswerTotals:
    """The sum of what all jobs of one run have answered."""

    bytes: int = 0


@dataclass(slots=True)
class _Run:
    """A job that a worker is at."""

    index: int
    job: Job
    taken: _AnswerTotals
    process: _Process
    pipe: int
    output: IO[bytes]
    deadline: float
    stream: bytearray = field(default_factory=bytearray)
    oversized: bool = False
    surplus: bool = False

    def read(self) -> bool:
        """Read what the pipe has; return False at its end, when it is empty, or when a limit is exceeded."""
        if self.surplus:
            return False
        try:
            part = os.read(self.pipe, 1 << 20)
        except BlockingIOError:
            return False
        if len(self.stream) + len(part) > self.job.limits.result + (1 << 20):  # the rest is for notes
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

    def outcome(self, ended: protocol.Ended | None) -> WorkerOutcome:
        """Return the outcome of a job whose worker has ended; `ended` is None if the zygote died first."""
        while self.read():
            pass
        printed = min(os.fstat(self.output.fileno()).st_size, self.job.limits.output)
        output = os.pread(self.output.fileno(), LAST, max(0, printed - LAST))
        if ended is None:
            return WorkerOutcome(bytes(self.stream), output, lost=True)
        ending = (ended.code, ended.left, ended.overtime, self.oversized)
        return WorkerOutcome(bytes(self.stream), output, *ending, surplus=self.surplus)

    def close(self) -> None:
        os.close(self.pipe)
        self.output.close()


def _rank_weakness(given: SandboxReport) -> int:
    return list(Level).index(given.level)


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool:
    """Zygotes and the workers under them. `twice` starts the second, disturbed zygote together with the first.

    Workers are put into the best sandbox that the machine gives, or into a lesser one that `sandbox` names.
    """

    def __init__(self, *, twice: bool = False, width: int | None = None, sandbox: Sandbox | None = None) -> None:
        self._width = width or _count_cores()
        self._numbers = count(1)
        self._sandbox = sandbox or Sandbox()
        self._processes = {
            disturbed: _Process(self._sandbox, disturbed=disturbed)
            for disturbed in ((False, True) if twice else (False,))
        }

    def sandbox_report(self) -> SandboxReport:
        """Return the sandbox of the jobs of this pool; of two zygotes, that of the weaker one."""
        reports = (self._process(disturbed).sandbox_report() for disturbed in self._processes or (False,))
        return max(reports, key=_rank_weakness)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.control.close()  # all begin to end before the first is waited for
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def run(self, jobs: Sequence[Job], deadline: float = math.inf) -> list[WorkerOutcome]:
        """Run the jobs, as many at a time as there are cores, and return their outcomes in the order of the jobs.

        No job is started after the deadline, which is a time of `time.monotonic`. Raise FleetError if a zygote does
        not start, or dies by a fault of fleet.
        """
        waiting = deque(enumerate(jobs))
        taken = _AnswerTotals()
        running: dict[int, _Run] = {}
        outcomes: dict[int, WorkerOutcome] = {}
        with selectors.DefaultSelector() as selector:
            try:
                while waiting or running:
                    while waiting and len(running) < self._width:
                        if time.monotonic() > deadline:
                            outcomes |= {index: WorkerOutcome(b"", b"", late=True) for index, _ in waiting}
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

    def _start(self, index: int, job: Job, taken: _AnswerTotals) -> tuple[int, _Run]:
        process = self._process(job.disturbed)
        process.sandbox_report()  # waits until it is warm; from here on it sends only how runs end
        number = next(self._numbers)
        pipe, worker_pipe = os.pipe()
        os.set_blocking(pipe, False)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the run
        seconds = job.limits.time + KILL_SECONDS
        run = _Run(index, job, taken, process, pipe, output, time.monotonic() + seconds + _STARTING)
        try:
            order = (seconds, job.limits.memory, as_bits(job.without), orjson.dumps(job))
            request = protocol.WorkerRequest(protocol.RUN_REQUEST, number, *order, (worker_pipe, output.fileno()))
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the zygote is dead, and its socket reports that next
                protocol.send_request(process.control, request)
        finally:
            os.close(worker_pipe)
        return number, run

    def _collect(
        self, selector: selectors.BaseSelector, running: dict[int, _Run], outcomes: dict[int, WorkerOutcome]
    ) -> None:
        """Wait for answers and ends of jobs, and discard a zygote that does not keep the deadlines."""
        for key, _ in selector.select(1.0):
            if isinstance(key.data, _Process):
                self._hear(key.data, selector, running, outcomes)
            elif key.data in running:
                run = running[key.data]
                if not run.read():
                    selector.unregister(run.pipe)  # closed, or beyond a limit; the zygote reports the end
                    if run.oversized or run.surplus:
                        protocol.send_request(
                            run.process.control, protocol.WorkerRequest(protocol.KILL_REQUEST, key.data)
                        )
        for run in list(running.values()):
            if run.deadline < time.monotonic() and run.process in self._processes.values():
                self._discard(run.process)  # it does not keep the deadline: it is ended, and its workers count as lost

    def _hear(
        self,
        process: _Process,
        selector: selectors.BaseSelector,
        running: dict[int, _Run],
        outcomes: dict[int, WorkerOutcome],
    ) -> None:
        """Finish the run whose end a zygote reports, or all its runs if it has died; raise the error it died of."""
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
        error = process.death_error()
        self._discard(process)
        if error:
            raise error

    @staticmethod
    def _finish(
        number: int,
        ended: protocol.Ended | None,
        selector: selectors.BaseSelector,
        running: dict[int, _Run],
        outcomes: dict[int, WorkerOutcome],
    ) -> None:
        run = running.pop(number)
        with contextlib.suppress(KeyError):
            selector.unregister(run.pipe)
        outcomes[run.index] = run.outcome(ended)
        run.close()

    def _discard(self, process: _Process) -> None:
        for disturbed, current in list(self._processes.items()):
            if current is process:
                del self._processes[disturbed]
        process.close()
