"""The life of one worker: bounded, guarded, and over when it has written its answer.

This is the boundary. User code runs on this side; what leaves is lines of JSON on one descriptor: notes of the place it
is at (`{"at": [file, line]}`), then the answer. The parent trusts none of it without a check.

    confine    the sandbox: a view of its own, no privileges, Landlock; what every stack needs is imported before
    limit      wall clock, CPU, memory, output: the line that hits a limit is reported
    filter     the last layer of the sandbox: system calls. Unless all layers are on, no line of user code runs
    guard      the refusal, at the user's line, of what a stack cannot do
    run        the task
    answer     at most `limits.result` bytes
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import orjson

import fleet
import fleet.apps
from fleet.evaluate import explain, perturbation
from fleet.evaluate.protocol import UNCONFINED, WATCHDOG_SECONDS, Job, Task
from fleet.evaluate.sandbox import confine
from fleet.evaluate.sandbox.confine import Confinement
from fleet.evaluate.sandbox.level import Layer
from fleet.evaluate.worker import load
from fleet.evaluate.worker.guard import stand_guard
from fleet.objects.desired import Key
from fleet.repository.settings import Limits
from fleet.text import count_noun

REFUSED = 71  # the exit code of a worker that could not be confined
_BALLAST = 1 << 20  # bytes that are freed to report that there is no memory

_exit = os._exit


def warm_up() -> None:
    """Import before the fork what nearly every worker needs."""
    importlib.import_module("fleet.evaluate.worker.task")
    for module in (fleet, fleet.apps):
        for name in dir(module):  # its names load on first use
            getattr(module, name)


class AnswerPipe:
    """The stream to the parent."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.at: tuple[str, int] = ("", 0)
        self._is_given = False

    def note(self, file: str, line: int) -> None:
        """Report the place that the worker is at, in case it ends without an answer."""
        self.at = (file, line)
        self._write(orjson.dumps({"at": self.at}) + b"\n")

    def give(self, data: bytes) -> None:
        """Write the answer, once; after it no alarm can add to the stream."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        if not self._is_given:
            self._is_given = True
            self._write(data + b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]


def tell(descriptor: int, error: Exception) -> None:
    """Answer that no line of user code was run, because the sandbox could not be made."""
    AnswerPipe(descriptor).give(UNCONFINED + f"{type(error).__name__}: {error}".encode(errors="replace")[:1000])


def work(request: bytes, descriptor: int, cell: Confinement) -> NoReturn:
    """Do the job and end the process."""
    answer = AnswerPipe(descriptor)
    ballast = bytearray(_BALLAST)
    job = _read_job(request)
    root = Path(job.root)
    try:
        try:
            cell.shut({0, 1, 2, descriptor})
            cell.wall(job.root, *filter(None, [job.packages]))
            os.chdir(root)
            _impose_limits(job, answer, cell)
            cell.filter()
        except Exception as error:
            tell(descriptor, error)
            _exit(REFUSED)
        if job.disturbed:
            perturbation.renumber()
        ledger = stand_guard(root, job.packages)
        load.make_importable(root, *job.importable, packages=job.packages)
        try:
            result = _select_task(job.task)(job, answer.note)
        except BaseException as error:
            del ballast[:]  # reporting that memory ran out needs memory
            result = {"problems": [explain.explain(error, root, job, answer.at)]}
        result |= {"files": ledger.files(), "directories": ledger.directories(), "foreign": ledger.foreign()}
        answer.give(_encode_result(result, job.limits, answer.at))
        with contextlib.suppress(Exception):
            sys.stdout.flush()
    finally:
        _exit(0)


def _read_job(request: bytes) -> Job:
    data = orjson.loads(request)
    return Job(**data | {"task": Task(data["task"]), "limits": Limits(**data["limits"])})


def _select_task(task: Task) -> Callable[[Job, Callable[[str, int], None]], dict[str, Any]]:
    from fleet.evaluate.worker import task as tasks  # noqa: PLC0415 - imports the model, which only a zygote should hold

    return {Task.CLUSTERS: tasks.find_clusters, Task.STACKS: tasks.run_stacks}[task]


def _encode_result(result: dict[str, Any], limits: Limits, place: tuple[str, int]) -> bytes:
    """Return the result as JSON, or a problem if it is too large or no plain data."""
    try:
        data = orjson.dumps(result, default=_encode_key)
    except (MemoryError, TypeError, RecursionError) as error:
        message = "is too large to be sent" if isinstance(error, MemoryError) else f"is not plain data: {error}"
        return orjson.dumps({"problems": [_describe_result(message, place)]})
    if len(data) <= limits.result:
        return data
    message = f"has {count_noun(len(data), 'byte')} as JSON, more than the {limits.result} allowed"
    return orjson.dumps({"problems": [_describe_result(message, place)]})


def _encode_key(value: object) -> list[str]:
    """Return a key as a list, which JSON does not do with a named tuple; raise TypeError for any other type."""
    if isinstance(value, Key):
        return list(value)
    raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")


def _describe_result(message: str, place: tuple[str, int]) -> dict[str, Any]:
    hint = "make less of it, split the stack, or raise result under [limits] in fleet.toml"
    return _make_problem(f"the result {message}", hint, *place)


def _impose_limits(job: Job, answer: AnswerPipe, cell: Confinement) -> None:
    """Impose the limits of the job on this process, and have it report the line that hits one."""
    limits = job.limits
    _set_alarm(signal.SIGALRM, job, answer, explain.time_exceeded(limits))
    _set_alarm(signal.SIGXCPU, job, answer, explain.cpu_exceeded(limits))
    if Layer.ALARM in cell.layers:
        signal.setitimer(signal.ITIMER_REAL, limits.time)
    # Where Python cannot run the alarm, or crashes, a traceback in the place of an answer shows the line.
    faulthandler.enable(file=answer.descriptor, all_threads=False)
    if Layer.WATCHDOG in cell.layers:
        faulthandler.dump_traceback_later(limits.time + WATCHDOG_SECONDS, exit=True, file=answer.descriptor)
    confine.impose(limits, cell.layers)


def _set_alarm(number: signal.Signals, job: Job, answer: AnswerPipe, texts: tuple[str, str]) -> None:
    """Have a signal end the worker with a problem at the line where it arrives; user code cannot catch that."""

    def ring(_number: int, frame: FrameType | None) -> None:
        file, line = explain.place_in(frame, Path(job.root)) or answer.at
        message, hint = texts
        answer.give(orjson.dumps({"problems": [_make_problem(message, hint, file, line)]}))
        _exit(0)

    signal.signal(number, ring)


def _make_problem(message: str, hint: str, file: str, line: int) -> dict[str, Any]:
    return {"message": message, "hint": hint, "field": None, "file": file, "line": line}
