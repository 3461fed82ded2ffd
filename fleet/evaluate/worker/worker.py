"""The life of one worker: bounded, guarded, and over when it has written its answer.

This is the boundary. On this side runs user code; what leaves is lines of JSON on one descriptor: notes of where it is
(`{"at": [file, line]}`), then the answer. The parent believes none of it without looking.

    confine    the sandbox: a view of its own, no privileges, Landlock; what every stack needs is imported by then
    limit      wall clock, CPU, memory, output: the line that hits a limit is told
    filter     the last of the sandbox: system calls. Without all of it no line of user code is run
    guard      refuse, at the user's line, what a stack has no business doing
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
from fleet.evaluate.sandbox.confine import Cell
from fleet.evaluate.sandbox.level import Layer
from fleet.evaluate.worker import load
from fleet.evaluate.worker.guard import stand_guard
from fleet.objects.desired import Key
from fleet.repository.settings import Limits
from fleet.text import count_noun

REFUSED = 71  # the exit code of a worker that could not be confined
_BALLAST = 1 << 20

_exit = os._exit


def warm_up() -> None:
    """Import before the fork what nearly every worker needs."""
    importlib.import_module("fleet.evaluate.worker.task")
    for module in (fleet, fleet.apps):
        for name in dir(module):  # they load on first use
            getattr(module, name)


class AnswerPipe:
    """The stream to the parent."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.at: tuple[str, int] = ("", 0)
        self._given = False

    def note(self, file: str, line: int) -> None:
        """Say where we are, for the case that nothing is heard of us any more."""
        self.at = (file, line)
        self._write(orjson.dumps({"at": self.at}) + b"\n")

    def give(self, data: bytes) -> None:
        """Once; after it no alarm can add to it."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        if not self._given:
            self._given = True
            self._write(data + b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]


def tell(descriptor: int, error: Exception) -> None:
    """That no line of user code was run, because the sandbox could not be made."""
    AnswerPipe(descriptor).give(UNCONFINED + f"{type(error).__name__}: {error}".encode(errors="replace")[:1000])


def work(request: bytes, descriptor: int, cell: Cell) -> NoReturn:
    """Do the job and end the process."""
    answer = AnswerPipe(descriptor)
    ballast = bytearray(_BALLAST)
    job = _job(request)
    root = Path(job.root)
    try:
        try:
            cell.shut({0, 1, 2, descriptor})
            cell.wall(job.root, *filter(None, [job.packages]))
            os.chdir(root)
            _limit(job, answer, cell)
            cell.filter()
        except Exception as error:
            tell(descriptor, error)
            _exit(REFUSED)
        if job.disturbed:
            perturbation.renumber()
        ledger = stand_guard(root, job.packages)
        load.make_importable(root, *job.importable, packages=job.packages)
        try:
            result = _task(job.task)(job, answer.note)
        except BaseException as error:
            del ballast[:]  # there must be memory to say that there is none
            result = {"problems": [explain.explain(error, root, job, answer.at)]}
        result |= {"files": ledger.files(), "directories": ledger.directories(), "foreign": ledger.foreign()}
        answer.give(_packed(result, job.limits, answer.at))
        with contextlib.suppress(Exception):
            sys.stdout.flush()
    finally:
        _exit(0)


def _job(request: bytes) -> Job:
    data = orjson.loads(request)
    return Job(**data | {"task": Task(data["task"]), "limits": Limits(**data["limits"])})


def _task(task: Task) -> Callable[[Job, Callable[[str, int], None]], dict[str, Any]]:
    from fleet.evaluate.worker import task as tasks  # noqa: PLC0415 - imports the model, which only a zygote should hold

    return {Task.CLUSTERS: tasks.find_clusters, Task.STACKS: tasks.run_stacks}[task]


def _packed(result: dict[str, Any], limits: Limits, at: tuple[str, int]) -> bytes:
    try:
        data = orjson.dumps(result, default=_plain)
    except (MemoryError, TypeError, RecursionError) as error:
        what = "is too large to be sent" if isinstance(error, MemoryError) else f"is not plain data: {error}"
        return orjson.dumps({"problems": [_about_result(what, at)]})
    if len(data) <= limits.result:
        return data
    what = f"has {count_noun(len(data), 'byte')} as JSON, more than the {limits.result} allowed"
    return orjson.dumps({"problems": [_about_result(what, at)]})


def _plain(value: object) -> list[str]:
    """The one type of ours that JSON does not know: a tuple of its own kind."""
    if isinstance(value, Key):
        return list(value)
    raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")


def _about_result(what: str, at: tuple[str, int]) -> dict[str, Any]:
    hint = "make less of it, split the stack, or raise result under [limits] in fleet.toml"
    return _problem(f"the result {what}", hint, *at)


def _limit(job: Job, answer: AnswerPipe, cell: Cell) -> None:
    limits = job.limits
    _alarm(signal.SIGALRM, job, answer, explain.time_exceeded(limits))
    _alarm(signal.SIGXCPU, job, answer, explain.cpu_exceeded(limits))
    if Layer.ALARM in cell.layers:
        signal.setitimer(signal.ITIMER_REAL, limits.time)
    # Where Python does not come to its senses, or crashes, a traceback in the place of an answer tells the line.
    faulthandler.enable(file=answer.descriptor, all_threads=False)
    if Layer.WATCHDOG in cell.layers:
        faulthandler.dump_traceback_later(limits.time + WATCHDOG_SECONDS, exit=True, file=answer.descriptor)
    confine.impose(limits, cell.layers)


def _alarm(number: signal.Signals, job: Job, answer: AnswerPipe, told: tuple[str, str]) -> None:
    """End the worker with a problem at the line where the signal finds it; user code cannot catch that."""

    def ring(_number: int, frame: FrameType | None) -> None:
        file, line = explain.place_in(frame, Path(job.root)) or answer.at
        message, hint = told
        answer.give(orjson.dumps({"problems": [_problem(message, hint, file, line)]}))
        _exit(0)

    signal.signal(number, ring)


def _problem(message: str, hint: str, file: str, line: int) -> dict[str, Any]:
    return {"message": message, "hint": hint, "field": None, "file": file, "line": line}
