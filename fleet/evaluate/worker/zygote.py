"""A warm process that forks one worker per run: pydantic and the model are imported once, before any user code.

    parent ──request, descriptors──▶ zygote ──fork──▶ worker (user code)
       ▲ ◀───level, then ended────────┘                  │
       └───────────────── result, output ────────────────┘

First it finds out which sandbox the machine gives, enters the part that all workers share, and reports which it is.

It runs no user code itself and has no thread. It is the keeper of the workers' processes: it ends them in time, ends
the processes they leave behind, reaps all of them, and ends together with everything under it when its parent has died
(the control socket closes).

Started as `python -m fleet.evaluate.worker.zygote FD SANDBOX [disturbed]`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any

import orjson

from fleet.evaluate import perturbation, processes, protocol
from fleet.evaluate.sandbox import confine, mounts
from fleet.evaluate.sandbox.cgroup import WorkerCgroup, needed_limits
from fleet.evaluate.sandbox.confine import Confinement
from fleet.evaluate.sandbox.level import OF_NAMESPACES, Layer, Sandbox, from_bits
from fleet.evaluate.sandbox.probe import Probing
from fleet.evaluate.worker import load, worker


@dataclass(slots=True)
class Running:
    """A run whose worker has not ended yet."""

    run: int
    pid: int  # also its session and process group
    deadline: float
    left: int = 0
    overtime: bool = False


class Zygote:
    """The loop that takes requests and keeps the workers' processes."""

    def __init__(self, control: socket.socket, cell: Confinement, group: WorkerCgroup, *, loose: bool) -> None:
        self._control = control
        self._cell = cell
        self._group = group
        self._allowed = (0, 0)  # what the group may use: bytes of memory, and tasks
        self._loose = loose
        self._running: dict[int, Running] = {}  # by pid
        self._told: set[tuple[int, int]] = set()  # orphans that were counted for a run and are still dying
        self._wake, wakeup = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore_signal)
        self._life, self._held = os.pipe()  # the second end is open while the zygote lives

    def serve(self) -> None:
        """Serve requests until the parent closes the control socket; then end all workers."""
        try:
            while True:
                sources: list[Any] = [self._control, self._wake]
                readable, _, _ = select.select(sources, [], [], self._patience())
                if self._wake in readable:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                self._reap()
                self._end_overdue()
                if self._control in readable:
                    request = protocol.receive_request(self._control)
                    if request is None:
                        return
                    self._take(request)
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self._end_all()

    def _take(self, request: protocol.WorkerRequest) -> None:
        if request.verb == protocol.RUN_REQUEST:
            self._start(request)
            return
        for running in self._running.values():
            if running.run == request.run:
                _kill_group(running.pid)

    def _start(self, request: protocol.WorkerRequest) -> None:
        own_pid = os.getpid()
        left_out = from_bits(request.without)
        try:
            if left_out and not self._loose:
                raise PermissionError("a job asks for less of a sandbox than it is to have")
            cell = self._cell.without(left_out)
            self._make_room(request.memory)
            pid = cell.fork()
        except OSError as error:  # the system has no room for another process, or for another namespace
            worker.tell(request.descriptors[0], error)
            protocol.send_ended(self._control, protocol.Ended(request.run, worker.REFUSED, 0, False))
        else:
            if pid == 0:
                self._become_worker(own_pid, request, cell)
            seconds = request.seconds if Layer.KEEPER in cell.layers else float("inf")
            self._running[pid] = Running(request.run, pid, time.monotonic() + seconds)
        for descriptor in request.descriptors:
            os.close(descriptor)

    def _make_room(self, memory: int) -> None:
        """Raise the limits of the group for one more worker; they are never lowered again."""
        bytes_, tasks = map(max, needed_limits(len(self._running) + 1, memory), self._allowed)
        if self._group.directories and (bytes_, tasks) != self._allowed:
            self._allowed = (bytes_, tasks)
            self._group.limit(*self._allowed)

    def _become_worker(self, zygote: int, request: protocol.WorkerRequest, cell: Confinement) -> None:
        """Do the job in the new child; never return."""
        try:
            with contextlib.suppress(OSError):
                os.setsid()
            processes.mark_process(request.run)
            os.close(self._held)
            processes.die_with(zygote, self._life)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            result, output = request.descriptors
            os.dup2(output, 1)
            os.dup2(output, 2)
            if self._group.directories:
                processes.die_first()
            worker.work(request.job, result, cell)
        finally:
            os._exit(70)  # a worker ends itself; this is for one that could not start its job

    def _patience(self) -> float | None:
        """Return the seconds until the next deadline; None if there is none."""
        if not self._running:
            return None
        seconds = min(running.deadline for running in self._running.values()) - time.monotonic()
        return None if seconds == float("inf") else max(0.0, seconds)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for running in self._running.values():
            if running.deadline <= now:
                running.overtime = True
                running.deadline = now + 1.0  # not again at once: to die takes a process a moment
                _kill_group(running.pid)

    def _reap(self) -> None:
        while (ended := _find_ended()) is not None:
            pid, status = ended
            running = self._running.get(pid)
            if running is not None:  # else an orphan of a worker
                self._end_orphans()
                _kill_group(pid)
            if status is None:
                _, status = os.waitpid(pid, 0)
            if running is not None:
                del self._running[pid]
                code = os.waitstatus_to_exitcode(status)
                protocol.send_ended(self._control, protocol.Ended(running.run, code, running.left, running.overtime))

    def _end_orphans(self) -> None:
        """End the processes that workers left behind: orphans are the children of the zygote that are no workers."""
        give_up = time.monotonic() + 5.0
        while time.monotonic() < give_up:
            non_workers = [child for child in processes.children() if child.pid not in self._running]
            self._told &= {(child.pid, child.started) for child in non_workers}
            orphans = [child for child in non_workers if child.alive]
            if not orphans:
                return
            for orphan in orphans:
                if (orphan.pid, orphan.started) not in self._told:
                    self._told.add((orphan.pid, orphan.started))
                    if owner := self._owner(orphan):
                        owner.left += 1
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(orphan.pid, signal.SIGKILL)
            time.sleep(0.001)  # the children of these orphans become the zygote's in turn

    def _owner(self, orphan: processes.Child) -> Running | None:
        """Return the run that an orphan is of, among those that run or end now; None if that cannot be known."""
        if mark := processes.mark_of(orphan.pid):
            return next((running for running in self._running.values() if running.run == mark), None)
        alone = next(iter(self._running.values())) if len(self._running) == 1 else None
        return self._running.get(orphan.session) or alone

    def _end_all(self) -> None:
        for pid in self._running:
            _kill_group(pid)
            os.waitpid(pid, 0)
        self._running.clear()
        self._end_orphans()


def _find_ended() -> tuple[int, int | None] | None:
    """Return a child that has ended, with its status if it was reaped here; None if no child has ended.

    Where the system has `waitid` the child stays a zombie, so that its number cannot go to another process or group.
    """
    try:
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            pid, status = os.waitpid(-1, os.WNOHANG)
            return (pid, status) if pid else None
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return (info.si_pid, None) if info else None


def _kill_group(leader: int) -> None:
    """Kill a worker and its process group, unless they have ended."""
    for kill in (os.killpg, os.kill):  # the leader itself too: it may not have made its group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(leader, signal.SIGKILL)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: Python writes to the wake-up descriptor only for signals that have a handler."""


def main() -> None:
    """Make the sandbox, import the model and serve the parent."""
    descriptor, sandbox_json, *flags = sys.argv[1:]
    del sys.argv[1:]  # user code finds the same arguments in both evaluations
    control = socket.socket(fileno=int(descriptor))
    control.set_inheritable(False)
    sandbox = Sandbox.of(orjson.loads(sandbox_json))
    probing = Probing(sandbox)
    gc.disable()  # imported objects stay, so the collector would find nothing and take a fifth of the time
    worker.warm_up()
    if "disturbed" in flags:
        perturbation.everything()
    sys.dont_write_bytecode = True  # from here on only user code imports
    processes.become_subreaper()
    report = probing.sandbox_report()
    view = mounts.installed_mounts()
    load.narrow()
    layers = sandbox.layers(report.level)
    if not layers.isdisjoint(OF_NAMESPACES):
        confine.enter(layers)
    cell = Confinement(layers, view)
    cell.prepare()
    gc.freeze()  # memory shared with the workers stays shared: their collector does not touch it
    gc.enable()
    protocol.send_hello(control, orjson.dumps(report.data()))
    Zygote(control, cell, WorkerCgroup(report.places), loose=sandbox.loose).serve()
    os._exit(0)  # nothing has to be cleaned up, and the parent waits


if __name__ == "__main__":
    main()
