"""Which level this machine gives: found by doing it, in a child that ends with it.

Kernels, containers and distributions forbid different parts in different ways, and no file tells them all. So each
level is tried as a whole, from the highest down, and what refused is the reason why it is not given.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

from fleet.evaluate.sandbox import cgroup, confine, kernel
from fleet.evaluate.sandbox.confine import Cell
from fleet.evaluate.sandbox.level import LAYERS, OF_NAMESPACES, Layer, Level, Sandbox, SandboxReport
from fleet.evaluate.sandbox.mounts import installed_mounts

_ROOT = "/usr"  # a tree that everybody has and may read
_FAILED = 1


def probe(highest: Level = Level.A) -> SandboxReport:
    """Only for a process without threads. Below `highest` the reason is that nobody asked for more."""
    why_not: dict[Level, str] = {}
    for level in (Level.A, Level.B):
        if level < highest:  # "A" comes before "B"
            why_not[level] = "not asked for"
            continue
        reason = _unsupported() or _tried(lambda level=level: _everything(LAYERS[level]))  # type: ignore[misc]
        if reason is None:
            return SandboxReport(level, why_not)
        why_not[level] = reason
    return SandboxReport(Level.NONE, why_not)


class Probing:
    """The same beside other work: begun now, its result asked for later. This process is put into a group, too."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._pipe, writing = os.pipe()
        me = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                found = replace(probe(sandbox.highest), weakened=sandbox.weakened)
                os.write(writing, json.dumps(_grouped(found, me, sandbox).data()).encode())
            finally:
                os._exit(0)
        os.close(writing)

    def given(self) -> SandboxReport:
        with os.fdopen(self._pipe, "rb") as pipe:
            data = pipe.read()
        os.waitpid(self._pid, 0)
        if not data:
            raise OSError("the sandbox could not be tried out")
        return SandboxReport.of(json.loads(data))


def _grouped(given: SandboxReport, pid: int, sandbox: Sandbox) -> SandboxReport:
    if Layer.GROUP not in sandbox.layers(given.level):
        return replace(given, why_no_group="not asked for")
    try:
        made, what = cgroup.make(pid)
    except OSError as error:
        return replace(given, why_no_group=str(error))
    return replace(given, group=what, places=made.directories)


def _unsupported() -> str | None:
    if sys.platform != "linux":
        return f"needs Linux, and this is {sys.platform}"
    if kernel.MACHINE is None:
        return f"is known for x86_64 and aarch64, and this is {os.uname().machine}"
    return None


def _everything(layers: frozenset[Layer]) -> None:
    cell = Cell(layers, installed_mounts())
    if not layers.isdisjoint(OF_NAMESPACES):
        confine.enter(layers)
        reason = _tried(lambda: _inside(cell), cell.fork)
        if reason is not None:
            raise OSError(reason)
        return
    _inside(cell)


def _inside(cell: Cell) -> None:
    cell.wall(_ROOT)
    cell.filter()
    _see_that_it_holds()


def _see_that_it_holds() -> None:
    """A sandbox that lets everything through is worse than none: look from inside."""
    for forbidden in ("/proc/self/environ", "/etc/passwd"):
        try:
            os.close(os.open(forbidden, os.O_RDONLY))
        except OSError:
            continue
        raise OSError(f"it does not hold: {forbidden} can be read")
    try:
        kernel.call("unshare", 0)
    except PermissionError:
        return
    raise OSError("it does not hold: system calls are not filtered")


def _tried(attempt: Callable[[], None], fork: Callable[[], int] = os.fork) -> str | None:
    """What went wrong in a child of ours, if anything."""
    reading, writing = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            os.close(reading)
            attempt()
            os._exit(0)
        except BaseException as error:
            os.write(writing, (str(error) or type(error).__name__)[:400].encode(errors="replace"))
        finally:
            os._exit(_FAILED)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read(4096).decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"a trial was ended by {signal.Signals(-code).name}"
    return None if code == 0 else told or "a trial failed"


if __name__ == "__main__":
    what, why_not = cgroup.try_cgroup()
    sys.stdout.write(json.dumps(replace(probe(), group=what, why_no_group=why_not).data()))
