"""The steps that put a worker into its sandbox, in the order that the layers need. No step can be undone.

    enter       the zygote, once: namespaces for users, network, ipc and host name, in which it forks all workers
    fork        a worker with mounts and process numbers of its own: it is the first process of its pid namespace, and
                when it ends the kernel ends all processes left inside
    shut        environment and descriptors: nothing of the process that started fleet is left
    wall        the view in the place of the file system, no privileges, Landlock; threads started later inherit them
    …           the worker itself sets limits (`impose`) and starts its watchdog thread in between
    filter      seccomp, last: the calls that all steps above needed are refused from then on

If a step fails it raises an OSError that says what, and the worker must end without running a line of user code.

Privileges of root, or of the owner of a namespace, are given up for good, also for programs that the worker may start.
Resource limits are counted by the kernel: what a worker may use of the machine before it fails or is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from fleet.evaluate.sandbox import kernel, landlock, mounts
from fleet.evaluate.sandbox import seccomp as calls
from fleet.evaluate.sandbox.level import Layer
from fleet.evaluate.sandbox.mounts import Mounts
from fleet.repository.settings import Limits

_SET_NO_NEW_PRIVILEGES, _DROP_FROM_BOUNDING_SET, _SET_DUMPABLE = 38, 24, 4
_AMBIENT, _CLEAR_ALL = 47, 4
_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64


def keep_none() -> None:
    """Drop all privileges of this process and of all that it may start."""
    with contextlib.suppress(OSError):  # a process that may not do this has no privileges to drop
        for number in range(_MOST_CAPABILITIES):
            kernel.call("prctl", _DROP_FROM_BOUNDING_SET, number, 0, 0, 0)
    with contextlib.suppress(OSError):
        kernel.call("prctl", _AMBIENT, _CLEAR_ALL, 0, 0, 0)
    with contextlib.suppress(PermissionError):  # likewise
        os.setgroups([])
    kernel.call("capset", struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", *(0,) * 6))
    forgo_new_ones()


def forgo_new_ones() -> None:
    """Let no set-user-ID program give privileges back; the kernel requires this before Landlock and seccomp."""
    kernel.call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


_MOUNT, _UTS, _IPC, _USER, _PID, _NET = 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
NOBODY = 65534
HOST_NAME = b"sandbox"


def enter(layers: frozenset[Layer]) -> None:
    """Enter the namespaces that all workers share; raise OSError if the machine refuses.

    For a process without threads; all processes that it forks are inside, too.
    """
    user, group = os.geteuid(), os.getegid()
    with contextlib.suppress(PermissionError):  # only root has the right to
        os.setgroups([])
    flags = _USER | _UTS | _MOUNT
    flags |= _NET if Layer.NET in layers else 0
    flags |= _IPC if Layer.IPC in layers else 0
    kernel.call("unshare", flags)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {group} 1")
    kernel.call("sethostname", HOST_NAME, len(HOST_NAME))
    mounts.make_private()


def fork_worker(layers: frozenset[Layer]) -> int:
    """Fork as `os.fork` does, but give the child mounts and process numbers of its own.

    For a process without threads. Raise OSError if the system has no room.
    """
    flags = _MOUNT if Layer.VIEW in layers else 0
    flags |= _PID if Layer.PID in layers else 0
    if not flags:
        return os.fork()
    # One call for both: unshare() would need a process in between, and another copy of all memory.
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    try:
        pid = kernel.clone(flags | signal.SIGCHLD)
    except OSError:
        python.PyOS_AfterFork_Parent()
        raise
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


KEPT_VARIABLES = frozenset({"TZ", "LANG", "PYTHONHASHSEED", "PYTHONUTF8"})  # the same everywhere, and no secrets


@dataclass(frozen=True, slots=True)
class Confinement:
    """The sandbox that each worker of a zygote is put into."""

    layers: frozenset[Layer]
    view: Mounts

    def without(self, layers: frozenset[Layer]) -> Confinement:
        """Return the same sandbox with some layers left out."""
        return replace(self, layers=self.layers - layers) if layers else self

    @property
    def writing(self) -> bool:
        """Return whether there is a private /tmp."""
        return Layer.VIEW in self.layers

    def prepare(self) -> None:
        """Compute what is the same for all workers, before they are forked."""
        if Layer.SECCOMP in self.layers and kernel.MACHINE is not None:
            calls.common(kernel.MACHINE, writing=self.writing)

    def fork(self) -> int:
        """Fork a worker; see `fork_worker`."""
        return fork_worker(self.layers)

    def shut(self, keep: Iterable[int]) -> None:
        """Empty the environment, and close all descriptors but those in `keep`."""
        if Layer.ENVIRONMENT in self.layers:
            for name in os.environ.keys() - KEPT_VARIABLES:
                del os.environ[name]
        if Layer.DESCRIPTORS in self.layers:
            close_all_but(keep)

    def wall(self, root: str, *more: str) -> None:
        """Restrict this process to the tree and the other directories that it may read; drop its privileges."""
        if Layer.VIEW in self.layers:
            self.view.mount(root, *more)
        if Layer.PRIVILEGES in self.layers:
            keep_none()
        elif not self.layers.isdisjoint({Layer.LANDLOCK, Layer.SECCOMP}):
            forgo_new_ones()
        if Layer.LANDLOCK in self.layers:
            landlock.restrict(self.view.grant_paths(root, *more, writing=self.writing))

    def filter(self) -> None:
        """Refuse all system calls that user code does not need."""
        if Layer.SECCOMP in self.layers:
            assert kernel.MACHINE is not None  # noqa: S101 - on an unknown machine no level has this layer
            calls.restrict(calls.confine_arguments(kernel.MACHINE, os.getpid(), writing=self.writing))


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor of this process except these."""
    above = 0
    for descriptor in sorted(keep):
        if above < descriptor:  # the kernel takes an empty range for all descriptors
            os.closerange(above, descriptor)
        above = descriptor + 1
    os.closerange(above, max(os.sysconf("SC_OPEN_MAX"), above + 1))


OPEN_FILES = 256
_BY_LAYER = {
    Layer.CPU: ("CPU",),
    Layer.MEMORY: ("AS", "MEMLOCK", "MSGQUEUE", "CORE"),
    Layer.FILE_SIZE: ("FSIZE",),
    Layer.OPEN_FILES: ("NOFILE",),
    Layer.PROCESSES: ("NPROC",),
}


def impose(limits: Limits, layers: frozenset[Layer]) -> None:
    """Impose the limits that the layers name on this process."""
    seconds = ceil(limits.cpu)
    bounds = {
        "CORE": (0, 0),
        "CPU": (seconds, seconds + 1),
        "AS": (limits.memory, limits.memory),
        "FSIZE": (limits.output, limits.output),
        "NOFILE": (OPEN_FILES, OPEN_FILES),
        "MEMLOCK": (0, 0),
        "MSGQUEUE": (0, 0),
        "NPROC": (0, 0),
    }
    names = {name for layer, resources in _BY_LAYER.items() if layer in layers for name in resources}
    for name, bound in bounds.items():
        if name in names and hasattr(resource, f"RLIMIT_{name}"):  # not every system has all limits
            with contextlib.suppress(ValueError, OSError):  # a lower limit is in force already
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), bound)
