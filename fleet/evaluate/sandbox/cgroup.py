"""The control group of a zygote and all its workers: it limits the sum of their memory and the number of processes.

The limits of `confine.impose` are per process; the group holds the sum, also if a worker manages to start processes. It
needs control groups that this process can write to: as root, or in a session or unit to which systemd delegates them,
and hardly ever in a pod. Without it the other layers are unchanged; `fleet doctor` reports whether there is one.

Moving a process between groups waits for all processors, about 13 ms. So a zygote moves once, while it starts, and its
workers are forked inside.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

BASE_MEMORY = 256 * 1024 * 1024  # bytes: the zygote's own, and what all workers share
BASE_TASKS, TASKS = 8, 4  # processes and threads: besides the workers, and of each worker
_CONTROLLERS = ("memory", "pids")
_NAME = re.compile(r"fleet-(\d+)-[0-9a-f]+")
_FILES = {  # version 1, in the order in which a limit can be raised; not every kernel counts swap
    "memory": ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "pids": ("pids.max",),
}
_FILES_2 = {"memory": ("memory.max",), "pids": ("pids.max",)}


@dataclass(frozen=True, slots=True)
class CgroupPlace:
    """A directory in which a group can be made, and what can be limited there."""

    directory: str
    controllers: tuple[str, ...]
    version: int


@dataclass(frozen=True, slots=True)
class WorkerCgroup:
    """The control group of a zygote: one directory, or one per controller in version 1."""

    directories: tuple[str, ...]

    def limit(self, memory: int, tasks: int) -> None:
        """Set the limits of the group; raise OSError when one of them cannot be set."""
        for directory in map(Path, self.directories):
            files = _FILES_2 if (directory / "cgroup.type").exists() else _FILES
            if files is _FILES_2 and (directory / "memory.swap.max").exists():
                (directory / "memory.swap.max").write_text("0")
            for controller, value in (("memory", memory), ("pids", tasks)):
                limit_files = [directory / name for name in files[controller] if (directory / name).exists()]
                for file in limit_files[:-1]:
                    with contextlib.suppress(OSError):  # too low or too high until the other one is set
                        file.write_text(str(value))
                for file in limit_files[-1:]:
                    file.write_text(str(value))

    def remove(self) -> None:
        """Remove the group, whose processes must all have ended; do nothing if that fails."""
        for directory in self.directories:
            with contextlib.suppress(OSError):
                Path(directory).rmdir()


def needed_limits(workers: int, memory: int) -> tuple[int, int]:
    """Return the memory and the tasks that so many workers need at once, each with that much memory."""
    return BASE_MEMORY + workers * memory, BASE_TASKS + workers * TASKS


def places(cgroups: str, mounts: str) -> list[CgroupPlace]:
    """Return where a process has its groups, from its two files in /proc: `cgroup` and `mountinfo`. Pure."""
    own_paths = {names: path for _, names, path in (line.split(":", 2) for line in cgroups.splitlines())}
    all_places: list[CgroupPlace] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, top, mount_point, *_ = before.split(" ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup":
            controllers = tuple(name for name in _CONTROLLERS if name in options.split(","))
            own = next(
                (path for names, path in own_paths.items() if controllers and controllers[0] in names.split(",")), None
            )
            version = 1
        elif kind == "cgroup2":
            controllers, own, version = _CONTROLLERS, own_paths.get(""), 2
        else:
            continue
        if controllers and own is not None and (top in ("/", own) or own.startswith(f"{top}/")):
            directory = (mount_point + own.removeprefix(top.rstrip("/"))).rstrip("/")
            all_places.append(CgroupPlace(directory, controllers, version))
    places_1 = [place for place in all_places if place.version == 1]
    return places_1 or [place for place in all_places if place.version == 2]


def make(pid: int) -> tuple[WorkerCgroup, str]:
    """Put a process into a new group; return the group and what it limits, as text. Raise OSError if that fails."""
    proc = Path("/proc/self")
    files = [proc / "cgroup", proc / "mountinfo"]
    own_places = places(*(file.read_text() for file in files)) if all(map(Path.exists, files)) else []
    if not own_places:
        raise OSError("the kernel has no control groups for memory and processes here")
    name = f"fleet-{pid}-{os.urandom(4).hex()}"
    directories: list[str] = []
    group = WorkerCgroup(())
    try:
        for place in own_places:
            directories.append(_make_group(place, name, pid))
            group = WorkerCgroup(tuple(directories))
        group.limit(*needed_limits(1, 0))
    except OSError:
        _move_back(own_places, pid)
        group.remove()
        raise
    controllers = sorted({controller for place in own_places for controller in place.controllers})
    nouns = {"memory": "memory", "pids": "processes"}
    return group, " and ".join(nouns[controller] for controller in controllers)


def _make_group(place: CgroupPlace, name: str, pid: int) -> str:
    """Make a group at a place, put a process into it and return its directory; raise OSError if that fails."""
    if place.version == 1:
        return _make_below(Path(place.directory), name, pid)
    # A group with processes of its own cannot have groups with limits below it, unless it is the top. So the new group
    # is made beside the present one, or below it if the present one is the top.
    own = Path(place.directory)
    reasons = []
    for above in (own.parent, own):
        try:
            _delegate(above, place.controllers)
            return _make_below(above, name, pid)
        except OSError as error:
            reasons.append(str(error))
    raise OSError("; ".join(reasons))


def _delegate(above: Path, controllers: tuple[str, ...]) -> None:
    """Let the groups below a directory be limited by these controllers."""
    control = above / "cgroup.subtree_control"
    if not {*controllers} <= set(control.read_text().split()):
        control.write_text(" ".join(f"+{controller}" for controller in controllers))


def _make_below(above: Path, name: str, pid: int) -> str:
    """Make a group below a directory, put a process into it and return the directory of the group."""
    _remove_stale(above)
    directory = above / name
    directory.mkdir()
    try:
        (directory / "cgroup.procs").write_text(str(pid))
    except OSError:
        directory.rmdir()
        raise
    return str(directory)


def _move_back(own_places: list[CgroupPlace], pid: int) -> None:
    """Put a process back into the groups that it had."""
    for place in own_places:
        with contextlib.suppress(OSError):
            Path(place.directory, "cgroup.procs").write_text(str(pid))


def _remove_stale(above: Path) -> None:
    """Remove groups whose zygote is dead, and whose parent was killed before it could remove them."""
    for directory in above.glob("fleet-*"):
        owner = _NAME.fullmatch(directory.name)
        if owner and not Path("/proc", owner[1]).exists():
            with contextlib.suppress(OSError):
                directory.rmdir()


def try_cgroup() -> tuple[str, str]:
    """Return what a group would limit here, or the reason why there can be none, by making one for a child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    group = WorkerCgroup(())
    try:
        group, limits = make(pid)
    except OSError as error:
        return "", str(error)
    else:
        return limits, ""
    finally:
        os.close(reading)
        os.close(writing)
        os.kill(pid, signal.SIGKILL)  # it may be ending already
        os.waitpid(pid, 0)
        group.remove()
