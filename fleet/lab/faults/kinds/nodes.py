"""Faults of whole nodes: their first process, on which all of their programs and containers hang."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from fleet.lab.cluster import cgroups
from fleet.lab.cluster import volumes as loops
from fleet.lab.faults import lookup
from fleet.lab.faults.fault import Active, Facts, Fault, Kind, parse
from fleet.lab.faults.inject import renew
from fleet.lab.faults.kinds import signals
from fleet.lab.locks import locked
from fleet.lab.programs import process
from fleet.lab.programs.launch import launch

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def _resolve(lab: Lab, fault: Fault) -> Facts:
    node, first = lookup.running_node(lab, fault.cluster, parse(fault.targets[0]).name)
    return {"node": node.name, "first": process.identify(first.pid)}


def _processes(facts: Facts) -> list[psutil.Process]:
    """All that runs on a node, its first process before its children."""
    found = []
    for first in signals.known_again([facts["first"]]):
        with contextlib.suppress(psutil.Error):
            if first.status() != psutil.STATUS_ZOMBIE:  # it may stay one: whoever started it need not ask how it ended
                found += [first, *first.children(recursive=True)]
    return found


def _kill(facts: Facts) -> None:
    """The kernel ends all of a node with its first process."""
    everything = _processes(facts)
    signals.send(everything[:1], signal.SIGKILL)
    psutil.wait_procs(everything, timeout=10)


def _start_again(lab: Lab, active: Active) -> None:
    """As after a reboot: its disk is as it was, its memory and its network are new."""
    node = lookup.node(lab, active.fault.cluster, active.facts["node"])
    with locked(lab.spec.name):  # `lab up` may be starting it
        first = process.running(lab.directory).get(node.role)
        node.cable(first.pid if first else launch(lab.directory, node.program()).process.pid)
    renew(lab, [node])


class KillNode(Kind):
    """As when the power goes."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve(lab, fault)

    def begin(self, lab: Lab, active: Active) -> None:
        _kill(dict(active.facts))

    def end(self, lab: Lab, active: Active) -> None:
        _start_again(lab, active)


class StopNode(Kind):
    """As by `shutdown`: nothing is started any more, containers are asked to end, then the power goes."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve(lab, fault)

    def begin(self, lab: Lab, active: Active) -> None:
        facts = dict(active.facts)
        keepers = [one for one in _processes(facts) if _starts_others(one)]
        signals.freeze(lambda: keepers)
        groups = [tree / facts["node"] for tree in cgroups.trees(lab.spec.id)]
        inside = {one for group in groups for one in lookup.members(group) if _works(one)}
        signals.send(inside, signal.SIGTERM)
        deadline = time.monotonic() + float(active.fault.options.get("grace", 10))
        while time.monotonic() < deadline and any(_works(one) for one in inside):
            time.sleep(0.05)
        _kill(facts)

    def end(self, lab: Lab, active: Active) -> None:
        _kill(dict(active.facts))  # a shutdown that was cut short: what is left of the node stands still
        _start_again(lab, active)


class LoseNode(Kind):
    """As when a machine burns: its volumes are lost with it. A new one of the same name comes in its place."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve(lab, fault)

    def begin(self, lab: Lab, active: Active) -> None:
        _kill(dict(active.facts))
        # No disk is made twice: whoever mounts one of these volumes is told that there is none. The files go first, so
        # that the provisioner attaches none of them again.
        for disk in self._volumes(lab, active).glob("*/disk"):
            disk.unlink()
        _detach_lost(self._volumes(lab, active))

    def end(self, lab: Lab, active: Active) -> None:
        _detach_lost(self._volumes(lab, active))  # if that was cut short, a device would show what is lost
        _start_again(lab, active)

    @staticmethod
    def _volumes(lab: Lab, active: Active) -> Path:
        return lab.plane(lab.spec.cluster(active.fault.cluster)).directory / "volumes" / str(active.facts["node"])


def _detach_lost(volumes: Path) -> None:
    """Release the devices of disks that are lost; the links to them go last."""
    lost = [link for link in volumes.glob("*/device") if not link.with_name("disk").exists()]
    deadline = time.monotonic() + 10
    while (devices := [one for link in lost for one in loops.devices(link.parent)]) and time.monotonic() < deadline:
        for device in devices:
            loops.release(device)
    for link in lost:
        link.unlink(missing_ok=True)


class FreezeNode(Kind):
    """As a virtual machine that its host has paused: it keeps its memory, and its connections hang."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve(lab, fault)

    def begin(self, lab: Lab, active: Active) -> None:
        signals.freeze(lambda: _processes(dict(active.facts)))

    def end(self, lab: Lab, active: Active) -> None:
        signals.send(_processes(dict(active.facts)), signal.SIGCONT)


def _starts_others(one: psutil.Process) -> bool:
    """The node's first process and its kubelet, which would start again what ends."""
    try:
        return one.name() == "kubelet" or "node_init.py" in " ".join(one.cmdline())
    except psutil.Error:
        return False


def _works(one: psutil.Process) -> bool:
    """Whether it is one that can end by itself: what holds a pod's network never does."""
    try:
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE and one.name() != lookup.PAUSE
    except psutil.Error:
        return False
