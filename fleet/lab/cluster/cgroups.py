"""Control groups of a lab, and the limit on inotify instances.

A lab has one subtree in every hierarchy, with a branch per node: kubelets that share a root would end each other's pods
as orphans.

Kubernetes' programs take fifteen inotify instances a cluster and seven a real node, and many systems allow a user 128.
Past that, kubelets and containerd come up without half of themselves, and say "too many open files", which sends people
to the wrong limit. Real nodes need root anyway, so the lab raises the limit, as a system that is meant for containers
would have it; a higher value stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def find_hierarchies() -> list[Path]:
    """Return where control groups are mounted: one place per controller with version 1, one with version 2."""
    hierarchies = []
    mounts = Path("/proc/self/mountinfo")
    for line in mounts.read_text().splitlines() if mounts.exists() else []:
        fields, _, kind = line.partition(" - ")
        if kind.split()[0] in {"cgroup", "cgroup2"}:
            hierarchies.append(Path(fields.split()[4]))
    return hierarchies


def tree_name(lab: str) -> str:
    return f"fleet-lab-{lab}"


def make_branch(lab: str, node: str) -> str:
    """Make a node's branch in every hierarchy, and return its path as the kubelet's cgroupRoot."""
    for hierarchy in find_hierarchies():
        branch = hierarchy / tree_name(lab) / node
        branch.mkdir(parents=True, exist_ok=True)
        for parent in (hierarchy, branch.parent, branch):
            _hand_down(parent)
    return f"/{tree_name(lab)}/{node}"


def _hand_down(directory: Path) -> None:
    """Make a new group usable.

    Version 1: a cpuset must name its CPUs before anything can be in it. Version 2: controllers are passed on.
    """
    for file in ("cpuset.cpus", "cpuset.mems"):
        target = directory / file
        source = directory.parent / file
        if target.exists() and source.exists() and not target.read_text().strip():
            with contextlib.suppress(OSError):
                target.write_text(source.read_text())
    controllers = directory / "cgroup.controllers"
    if controllers.exists():
        for controller in controllers.read_text().split():
            with contextlib.suppress(OSError):
                (directory / "cgroup.subtree_control").write_text(f"+{controller}")


def find_trees(lab: str) -> list[Path]:
    return [tree for hierarchy in find_hierarchies() if (tree := hierarchy / tree_name(lab)).is_dir()]


def list_groups(top: Path) -> list[Path]:
    """Return a group and all below it, each before those in it.

    Groups come and go meanwhile, which a glob fails on.
    """
    return [Path(directory) for directory, _, _ in os.walk(top)]


def list_processes(top: Path) -> list[int]:
    """Return the processes in a group and below, those of the group itself first."""
    processes: list[int] = []
    for group in list_groups(top):
        with contextlib.suppress(OSError):
            processes += [int(line) for line in (group / "cgroup.procs").read_text().split()]
    return [process for process in dict.fromkeys(processes) if process]


def list_lab_processes(lab: str) -> set[int]:
    """Return all processes that run in pods of a lab, containers without a shim included."""
    return {process for tree in find_trees(lab) for process in list_processes(tree)}


def remove_trees(lab: str) -> None:
    """Kill all processes inside, then remove the subtrees from the leaves up; the kernel may need a moment."""
    deadline = time.monotonic() + 10
    while find_trees(lab) and time.monotonic() < deadline:
        for process in list_lab_processes(lab):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for tree in find_trees(lab):
            for group in reversed(list_groups(tree)):
                with contextlib.suppress(OSError):
                    group.rmdir()
        if find_trees(lab):
            time.sleep(0.1)


INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH_INSTANCES = 1024


def raise_inotify_limit(limit: Path = INOTIFY_LIMIT) -> None:
    """Raise the limit on inotify instances of a user, unless it is high enough or may not be raised."""
    with contextlib.suppress(OSError, ValueError):  # where it may not be, nodes say so when they run into it
        if int(limit.read_text()) < ENOUGH_INSTANCES:
            limit.write_text(str(ENOUGH_INSTANCES))
