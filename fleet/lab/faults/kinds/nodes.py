"""Faults of whole nodes: their first process, on which all of their programs and containers hang."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from fleet.lab.cluster import cgroups
from fleet.lab.cluster.volumes import find_devices, release_device
from fleet.lab.faults import lookup
from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind, parse_target
from fleet.lab.faults.inject import renew_nodes
from fleet.lab.faults.kinds import signals
from fleet.lab.locks import lock_lab
from fleet.lab.programs import process
from fleet.lab.programs.launch import launch

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def _resolve_node(lab: Lab, fault: Fault) -> Facts:
    node, first = lookup.find_running_node(lab, fault.cluster, parse_target(fault.targets[0]).name)
    return {"node": node.name, "first": process.identify(first.pid)}


def _node_processes(facts: Facts) -> list[psutil.Process]:
    """All that runs on a node, its first process before its children."""
    found = []
    for first in signals.find_processes([facts["first"]]):
        with contextlib.suppress(psutil.Error):
            if first.status() != psutil.STATUS_ZOMBIE:  # it may stay one: whoever started it need not ask how it ended
                found += [first, *first.children(recursive=True)]
    return found


def _kill_node(facts: Facts) -> None:
    """The kernel ends all of a node with its first process."""
    everything = _node_processes(facts)
    signals.send(everything[:1], signal.SIGKILL)
    psutil.wait_procs(everything, timeout=10)


def _restart_node(lab: Lab, active: ActiveFault) -> None:
    """As after a reboot: its disk is as it was, its memory and its network are new."""
    node = lookup.find_node(lab, active.fault.cluster, active.facts["node"])
    with lock_lab(lab.spec.name):  # `lab up` may be starting it
        first = process.running_processes(lab.directory).get(node.role)
        node.cable(first.pid if first else launch(lab.directory, node.program()).process.pid)
    renew_nodes(lab, [node])


class KillNode(Kind):
    """As when the power goes."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        _kill_node(dict(active.facts))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        _restart_node(lab, active)


class StopNode(Kind):
    """As by `shutdown`: nothing is started any more, containers are asked to end, then the power goes."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        facts = dict(active.facts)
        keepers = [one for one in _node_processes(facts) if _is_supervisor(one)]
        signals.freeze(lambda: keepers)
        groups = [tree / facts["node"] for tree in cgroups.find_trees(lab.spec.id)]
        inside = {one for group in groups for one in lookup.list_processes(group) if _can_end(one)}
        signals.send(inside, signal.SIGTERM)
        deadline = time.monotonic() + float(active.fault.options.get("grace", 10))
        while time.monotonic() < deadline and any(_can_end(one) for one in inside):
            time.sleep(0.05)
        _kill_node(facts)

    def end(self, lab: Lab, active: ActiveFault) -> None:
        _kill_node(dict(active.facts))  # a shutdown that was cut short: what is left of the node stands still
        _restart_node(lab, active)


class LoseNode(Kind):
    """As when a machine burns: its volumes are lost with it. A new one of the same name comes in its place."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        _kill_node(dict(active.facts))
        # No disk is made twice: whoever mounts one of these volumes is told that there is none. The files go first, so
        # that the provisioner attaches none of them again.
        for disk in self._volumes(lab, active).glob("*/disk"):
            disk.unlink()
        _detach_lost(self._volumes(lab, active))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        _detach_lost(self._volumes(lab, active))  # if that was cut short, a device would show what is lost
        _restart_node(lab, active)

    @staticmethod
    def _volumes(lab: Lab, active: ActiveFault) -> Path:
        return lab.plane(lab.spec.cluster(active.fault.cluster)).directory / "volumes" / str(active.facts["node"])


def _detach_lost(volumes: Path) -> None:
    """Release the devices of disks that are lost; the links to them go last."""
    lost = [link for link in volumes.glob("*/device") if not link.with_name("disk").exists()]
    deadline = time.monotonic() + 10
    while devices := [device for link in lost for device in find_devices(link.parent)]:
        if time.monotonic() >= deadline:
            break
        for device in devices:
            release_device(device)
    for link in lost:
        link.unlink(missing_ok=True)


class FreezeNode(Kind):
    """As a virtual machine that its host has paused: it keeps its memory, and its connections hang."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        signals.freeze(lambda: _node_processes(dict(active.facts)))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        signals.send(_node_processes(dict(active.facts)), signal.SIGCONT)


def _is_supervisor(one: psutil.Process) -> bool:
    """The node's first process and its kubelet, which would start again what ends."""
    try:
        return one.name() == "kubelet" or "node_init.py" in " ".join(one.cmdline())
    except psutil.Error:
        return False


def _can_end(one: psutil.Process) -> bool:
    """Whether it is one that can end by itself: what holds a pod's network never does."""
    try:
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE and one.name() != lookup.PAUSE
    except psutil.Error:
        return False
