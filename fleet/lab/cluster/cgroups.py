"""Control groups and inotify limits.

The control groups of a lab: one subtree in every hierarchy, a branch per node.

Kubelets that share a root would end each other's pods as orphans, so each node has its own.

How many watchers of files a user may have: Kubernetes' programs take fifteen a cluster and seven a real node.

Many systems allow 128. Past that, kubelets and containerd come up without half of themselves, and say "too many open
files", which sends people to the wrong limit. Real nodes need root anyway, so it is raised, as a system that is meant
for containers would have it; a value that somebody set higher stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def find_hierarchies() -> list[Path]:
    """Where control groups are mounted: one place per controller with version 1, one in all with version 2."""
    places = []
    mounts = Path("/proc/self/mountinfo")
    for line in mounts.read_text().splitlines() if mounts.exists() else []:
        fields, _, kind = line.partition(" - ")
        if kind.split()[0] in {"cgroup", "cgroup2"}:
            places.append(Path(fields.split()[4]))
    return places


def tree_name(lab: str) -> str:
    return f"fleet-lab-{lab}"


def make_branch(lab: str, node: str) -> str:
    """Make a node's branch everywhere and return its path as the kubelet's cgroupRoot."""
    for hierarchy in find_hierarchies():
        branch = hierarchy / tree_name(lab) / node
        branch.mkdir(parents=True, exist_ok=True)
        for parent in (hierarchy, branch.parent, branch):
            _hand_down(parent)
    return f"/{tree_name(lab)}/{node}"


def _hand_down(directory: Path) -> None:
    """Version 1: a cpuset must name its CPUs before anything can be in it. Version 2: controllers are passed on."""
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
    """A group and all below it, each before those in it. They come and go while one looks, which a glob fails on."""
    return [Path(place) for place, _, _ in os.walk(top)]


def list_processes(top: Path) -> list[int]:
    """The processes in a group and below, those of the group itself first."""
    found: list[int] = []
    for group in list_groups(top):
        with contextlib.suppress(OSError):
            found += [int(line) for line in (group / "cgroup.procs").read_text().split()]
    return [process for process in dict.fromkeys(found) if process]


def list_lab_processes(lab: str) -> set[int]:
    """Whatever still runs in a pod of the lab, containers without a shim included."""
    return {process for tree in find_trees(lab) for process in list_processes(tree)}


def remove_trees(lab: str) -> None:
    """End what is left inside, then remove the subtrees from the leaves up; the kernel may need a moment."""
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
    with contextlib.suppress(OSError, ValueError):  # where it may not be, nodes say so when they run into it
        if int(limit.read_text()) < ENOUGH_INSTANCES:
            limit.write_text(str(ENOUGH_INSTANCES))
