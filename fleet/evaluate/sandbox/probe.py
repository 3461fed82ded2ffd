"""The probe of the level that this machine gives, made by entering it in a child that then ends.

Kernels, containers and distributions forbid different parts in different ways, and no file reports all of them. So each
level is tried as a whole, from the highest down, and the error of a step is the reason why a level is not given.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

from fleet.evaluate.sandbox import cgroup, confine, kernel
from fleet.evaluate.sandbox.confine import Confinement
from fleet.evaluate.sandbox.level import LAYERS, OF_NAMESPACES, Layer, Level, Sandbox, SandboxReport
from fleet.evaluate.sandbox.mounts import installed_mounts

_ROOT = "/usr"  # a tree that every machine has and every user may read
_FAILED = 1


def probe(highest: Level = Level.A) -> SandboxReport:
    """Return the level that this machine gives, at most `highest`, and the reasons against the higher ones.

    Only for a process without threads. For a level above `highest` the reason is that it was not asked for.
    """
    why_not: dict[Level, str] = {}
    for level in (Level.A, Level.B):
        if level < highest:  # "A" is less than "B"
            why_not[level] = "not asked for"
            continue
        reason = _find_unsupported() or _try_in_child(lambda level=level: _try_layers(LAYERS[level]))  # type: ignore[misc]
        if reason is None:
            return SandboxReport(level, why_not)
        why_not[level] = reason
    return SandboxReport(Level.NONE, why_not)


class Probing:
    """A probe beside other work: it begins at once and is read later. It also puts this process into a group."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._pipe, writing = os.pipe()
        own_pid = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                report = replace(probe(sandbox.highest), weakened=sandbox.is_weakened)
                os.write(writing, json.dumps(_make_group(report, own_pid, sandbox).data()).encode())
            finally:
                os._exit(0)
        os.close(writing)

    def sandbox_report(self) -> SandboxReport:
        """Wait for the probe and return its report; raise OSError if it left none."""
        with os.fdopen(self._pipe, "rb") as pipe:
            data = pipe.read()
        os.waitpid(self._pid, 0)
        if not data:
            raise OSError("the sandbox could not be tried out")
        return SandboxReport.of(json.loads(data))


def _make_group(report: SandboxReport, pid: int, sandbox: Sandbox) -> SandboxReport:
    """Put a process into a new control group; return the report with that group, or with the reason against it."""
    if Layer.GROUP not in sandbox.layers(report.level):
        return replace(report, why_no_group="not asked for")
    try:
        group, limits = cgroup.make(pid)
    except OSError as error:
        return replace(report, why_no_group=str(error))
    return replace(report, group=limits, places=group.directories)


def _find_unsupported() -> str | None:
    """Return why neither A nor B is possible on this machine; None if one of them may be."""
    if sys.platform != "linux":
        return f"needs Linux, and this is {sys.platform}"
    if kernel.MACHINE is None:
        return f"is known for x86_64 and aarch64, and this is {os.uname().machine}"
    return None


def _try_layers(layers: frozenset[Layer]) -> None:
    """Enter a sandbox of these layers and test it; raise OSError if a step fails or it does not hold."""
    cell = Confinement(layers, installed_mounts())
    if not layers.isdisjoint(OF_NAMESPACES):
        confine.enter(layers)
        reason = _try_in_child(lambda: _confine_and_check(cell), cell.fork)
        if reason is not None:
            raise OSError(reason)
        return
    _confine_and_check(cell)


def _confine_and_check(cell: Confinement) -> None:
    cell.wall(_ROOT)
    cell.filter()
    _check_isolation()


def _check_isolation() -> None:
    """Raise OSError if the sandbox lets through what it must refuse: such a sandbox is worse than none."""
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


def _try_in_child(attempt: Callable[[], None], fork: Callable[[], int] = os.fork) -> str | None:
    """Make an attempt in a child of this process, and return why it failed; None if it succeeded."""
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
        reason = pipe.read(4096).decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"a trial was ended by {signal.Signals(-code).name}"
    return None if code == 0 else reason or "a trial failed"


if __name__ == "__main__":
    group_limits, why_no_group = cgroup.try_cgroup()
    sys.stdout.write(json.dumps(replace(probe(), group=group_limits, why_no_group=why_no_group).data()))
