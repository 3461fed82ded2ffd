"""Put a worker into its sandbox.

Give up what root, or the owner of a namespace, could do: for good, also by way of other programs.

Namespaces: rooms of their own for users, network, ipc, host name, mounts and processes.

The zygote enters the first four once and forks all workers there. Mounts and process numbers are each worker's own:
it is the first process of its room, and when it ends the kernel ends whoever is left inside.

Put a worker into its sandbox, in the order that the layers need; after this no step of it can be taken back.

    forked      into mounts and process numbers of its own
    shut        environment and descriptors: nothing is left of whoever started us
    walled      the view in the place of the file system, no privileges, Landlock: threads started later inherit it
    …           the limits and their watchdog thread are the worker's own business, in between
    filtered    seccomp, last: the calls that all of the above needed are refused from then on

If anything fails an OSError says what, and the worker must end without a line of user code.

Resource limits of a worker, by the kernel's count: what it may use of the machine before it fails or is ended.
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
    """Of this process and all that it could ever start."""
    with contextlib.suppress(OSError):  # who may not has none to lose
        for number in range(_MOST_CAPABILITIES):
            kernel.call("prctl", _DROP_FROM_BOUNDING_SET, number, 0, 0, 0)
    with contextlib.suppress(OSError):
        kernel.call("prctl", _AMBIENT, _CLEAR_ALL, 0, 0, 0)
    with contextlib.suppress(PermissionError):  # likewise
        os.setgroups([])
    kernel.call("capset", struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", *(0,) * 6))
    forgo_new_ones()


def forgo_new_ones() -> None:
    """No program with set-user-ID gives any back; the kernel asks for it before Landlock and seccomp."""
    kernel.call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


_MOUNT, _UTS, _IPC, _USER, _PID, _NET = 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
NOBODY = 65534
HOST_NAME = b"sandbox"


def enter(layers: frozenset[Layer]) -> None:
    """For a process without threads, and all that it forks."""
    user, group = os.geteuid(), os.getegid()
    with contextlib.suppress(PermissionError):  # only root has the right, and so others' groups
        os.setgroups([])
    wanted = _USER | _UTS | _MOUNT
    wanted |= _NET if Layer.NET in layers else 0
    wanted |= _IPC if Layer.IPC in layers else 0
    kernel.call("unshare", wanted)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {group} 1")
    kernel.call("sethostname", HOST_NAME, len(HOST_NAME))
    mounts.make_private()


def fork_worker(layers: frozenset[Layer]) -> int:
    """As `os.fork`, but the child has mounts and process numbers of its own. For a process without threads."""
    wanted = _MOUNT if Layer.VIEW in layers else 0
    wanted |= _PID if Layer.PID in layers else 0
    if not wanted:
        return os.fork()
    # One call for both: with unshare() there would be a process in between, and another copy of all memory.
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    try:
        pid = kernel.clone(wanted | signal.SIGCHLD)
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
class Cell:
    """What a worker of this zygote is put into."""

    layers: frozenset[Layer]
    view: Mounts

    def without(self, layers: frozenset[Layer]) -> Cell:
        return replace(self, layers=self.layers - layers) if layers else self

    @property
    def writing(self) -> bool:
        """Whether there is a private /tmp."""
        return Layer.VIEW in self.layers

    def prepare(self) -> None:
        """What is the same for all workers, before they are forked."""
        if Layer.SECCOMP in self.layers and kernel.MACHINE is not None:
            calls.common(kernel.MACHINE, writing=self.writing)

    def fork(self) -> int:
        return fork_worker(self.layers)

    def shut(self, kept: Iterable[int]) -> None:
        if Layer.ENVIRONMENT in self.layers:
            for name in os.environ.keys() - KEPT_VARIABLES:
                del os.environ[name]
        if Layer.DESCRIPTORS in self.layers:
            close_all_but(kept)

    def wall(self, root: str, *more: str) -> None:
        """Around the tree, and whatever else may be read."""
        if Layer.VIEW in self.layers:
            self.view.mount(root, *more)
        if Layer.PRIVILEGES in self.layers:
            keep_none()
        elif not self.layers.isdisjoint({Layer.LANDLOCK, Layer.SECCOMP}):
            forgo_new_ones()
        if Layer.LANDLOCK in self.layers:
            landlock.restrict(self.view.granted(root, *more, writing=self.writing))

    def filter(self) -> None:
        if Layer.SECCOMP in self.layers:
            assert kernel.MACHINE is not None  # noqa: S101 - no level has this layer without
            calls.restrict(calls.confine_arguments(kernel.MACHINE, os.getpid(), writing=self.writing))


def close_all_but(kept: Iterable[int]) -> None:
    """Every descriptor of this process except these."""
    above = 0
    for descriptor in sorted(kept):
        if above < descriptor:  # an empty range would mean all of them to the kernel
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
    """On this process, those that the layers name."""
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
    names = {name for layer, its in _BY_LAYER.items() if layer in layers for name in its}
    for name, bound in bounds.items():
        if name in names and hasattr(resource, f"RLIMIT_{name}"):  # not every system has all
            with contextlib.suppress(ValueError, OSError):  # a lower one is in force already
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), bound)
