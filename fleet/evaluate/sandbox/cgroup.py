"""A control group around a zygote and all its workers: what they may use of memory and processes in sum.

The limits of `bounds` are per process. This one holds whatever all of them come to together, should ever one start
others. It is had where the kernel's control groups can be written to: by root, in a session or a unit of systemd that
delegates them, hardly ever in a pod. Where not, the rest of the sandbox is what it is; `fleet doctor` tells.

Moving a process between groups waits for all processors, about 13 ms. So a zygote moves once, while it starts, and its
workers are born inside.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

BASE_MEMORY = 256 * 1024 * 1024  # the zygote's own, and what all share
BASE_TASKS, TASKS = 8, 4  # processes and threads: around the workers, and of each
_CONTROLLERS = ("memory", "pids")
_NAME = re.compile(r"fleet-(\d+)-[0-9a-f]+")
_FILES = {  # in the order in which a limit can be raised; not every kernel counts swap
    "memory": ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "pids": ("pids.max",),
}
_FILES_2 = {"memory": ("memory.max",), "pids": ("pids.max",)}


@dataclass(frozen=True, slots=True)
class CgroupPlace:
    """Where a group can be made, and what can be limited there."""

    directory: str
    controllers: tuple[str, ...]
    version: int


@dataclass(frozen=True, slots=True)
class WorkerCgroup:
    directories: tuple[str, ...]

    def limit(self, memory: int, tasks: int) -> None:
        """An OSError when one of them could not be set."""
        for directory in map(Path, self.directories):
            files = _FILES_2 if (directory / "cgroup.type").exists() else _FILES
            if files is _FILES_2 and (directory / "memory.swap.max").exists():
                (directory / "memory.swap.max").write_text("0")
            for controller, value in (("memory", memory), ("pids", tasks)):
                there = [directory / name for name in files[controller] if (directory / name).exists()]
                for file in there[:-1]:
                    with contextlib.suppress(OSError):  # too low or too high until the other one is set
                        file.write_text(str(value))
                for file in there[-1:]:
                    file.write_text(str(value))

    def remove(self) -> None:
        """When all in it have ended."""
        for directory in self.directories:
            with contextlib.suppress(OSError):
                Path(directory).rmdir()


def needed(workers: int, memory: int) -> tuple[int, int]:
    """Memory and tasks for that many workers side by side, each with that much of memory."""
    return BASE_MEMORY + workers * memory, BASE_TASKS + workers * TASKS


def places(cgroups: str, mounts: str) -> list[CgroupPlace]:
    """Where the process with these two files in /proc has its groups: `cgroup` and `mountinfo`. Pure."""
    mine = {names: path for _, names, path in (line.split(":", 2) for line in cgroups.splitlines())}
    found: list[CgroupPlace] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, top, where, *_ = before.split(" ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup":
            held = tuple(name for name in _CONTROLLERS if name in options.split(","))
            own = next((path for names, path in mine.items() if held and held[0] in names.split(",")), None)
            version = 1
        elif kind == "cgroup2":
            held, own, version = _CONTROLLERS, mine.get(""), 2
        else:
            continue
        if held and own is not None and (top in ("/", own) or own.startswith(f"{top}/")):
            found.append(CgroupPlace((where + own.removeprefix(top.rstrip("/"))).rstrip("/"), held, version))
    first = [place for place in found if place.version == 1]
    return first or [place for place in found if place.version == 2]


def make(pid: int) -> tuple[WorkerCgroup, str]:
    """Put a process into a new group; also what it limits. An OSError says why not."""
    proc = Path("/proc/self")
    files = [proc / "cgroup", proc / "mountinfo"]
    known = places(*(file.read_text() for file in files)) if all(map(Path.exists, files)) else []
    if not known:
        raise OSError("the kernel has no control groups for memory and processes here")
    name = f"fleet-{pid}-{os.urandom(4).hex()}"
    made: list[str] = []
    group = WorkerCgroup(())
    try:
        for place in known:
            made.append(_made(place, name, pid))
            group = WorkerCgroup(tuple(made))
        group.limit(*needed(1, 0))
    except OSError:
        _move_back(known, pid)
        group.remove()
        raise
    what = sorted({one for place in known for one in place.controllers})
    return group, " and ".join({"memory": "memory", "pids": "processes"}[one] for one in what)


def _made(place: CgroupPlace, name: str, pid: int) -> str:
    if place.version == 1:
        return _entered(Path(place.directory), name, pid)
    # A group with processes of its own has no groups with limits below it; so beside ours, or where ours is the top.
    own = Path(place.directory)
    reasons = []
    for above in (own.parent, own):
        try:
            _delegate(above, place.controllers)
            return _entered(above, name, pid)
        except OSError as error:
            reasons.append(str(error))
    raise OSError("; ".join(reasons))


def _delegate(above: Path, controllers: tuple[str, ...]) -> None:
    control = above / "cgroup.subtree_control"
    if not {*controllers} <= set(control.read_text().split()):
        control.write_text(" ".join(f"+{one}" for one in controllers))


def _entered(above: Path, name: str, pid: int) -> str:
    _sweep(above)
    directory = above / name
    directory.mkdir()
    try:
        (directory / "cgroup.procs").write_text(str(pid))
    except OSError:
        directory.rmdir()
        raise
    return str(directory)


def _move_back(known: list[CgroupPlace], pid: int) -> None:
    for place in known:
        with contextlib.suppress(OSError):
            Path(place.directory, "cgroup.procs").write_text(str(pid))


def _sweep(above: Path) -> None:
    """Groups whose zygote is dead, and whose parent was killed before it could remove them."""
    for directory in above.glob("fleet-*"):
        owner = _NAME.fullmatch(directory.name)
        if owner and not Path("/proc", owner[1]).exists():
            with contextlib.suppress(OSError):
                directory.rmdir()


def try_cgroup() -> tuple[str, str]:
    """What a group here would limit, or why there can be none: found by making one around a child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    group = WorkerCgroup(())
    try:
        group, what = make(pid)
    except OSError as error:
        return "", str(error)
    else:
        return what, ""
    finally:
        os.close(reading)
        os.close(writing)
        os.kill(pid, signal.SIGKILL)  # it may be on its way already
        os.waitpid(pid, 0)
        group.remove()
