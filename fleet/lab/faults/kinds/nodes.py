"""Faults of whole nodes, by way of their first process, which ends or stops all of their programs and containers."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psutil

from fleet.lab.cluster import cgroups
from fleet.lab.cluster.volumes import find_devices, release_device
from fleet.lab.faults import lookup
from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind, expect_target, parse_target
from fleet.lab.faults.injection import renew_nodes
from fleet.lab.faults.kinds import signals
from fleet.lab.faults.verb import Draw, FaultVerb, Option, TargetName, TargetScope, check_at_least
from fleet.lab.locks import lock_lab
from fleet.lab.programs import process
from fleet.lab.programs.launch import launch

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def _resolve_node(lab: Lab, fault: Fault) -> Facts:
    node, first = lookup.find_running_node(lab, fault.cluster, parse_target(fault.targets[0]).name)
    return {"node": node.name, "first": process.identify(first.pid)}


def _node_processes(facts: Facts) -> list[psutil.Process]:
    """Return all processes of a node, its first process before its children."""
    processes = []
    for first in signals.find_processes([facts["first"]]):
        with contextlib.suppress(psutil.Error):
            if first.status() != psutil.STATUS_ZOMBIE:  # it may stay one: its parent need not reap it
                processes += [first, *first.children(recursive=True)]
    return processes


def _kill_node(facts: Facts) -> None:
    """Kill a node's first process; the kernel ends the rest of the node with it."""
    processes = _node_processes(facts)
    signals.send(processes[:1], signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10)


def _restart_node(lab: Lab, active: ActiveFault) -> None:
    """Start a node as after a reboot: its disk is as it was, its memory and its network are new."""
    node = lookup.find_node(lab, active.fault.cluster, active.facts["node"])
    with lock_lab(lab.spec.name):  # `lab up` may be starting it
        first = process.running_processes(lab.directory).get(node.role)
        node.cable(first.pid if first else launch(lab.directory, node.program()).process.pid)
    renew_nodes(lab, [node])


class KillNode(Kind):
    """A node that ends as when the power goes."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        _kill_node(dict(active.facts))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        _restart_node(lab, active)


class StopNode(Kind):
    """A node that ends as by `shutdown`: nothing is started any more, containers are asked to end, the power goes."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        facts = dict(active.facts)
        supervisors = [child for child in _node_processes(facts) if _is_supervisor(child)]
        signals.freeze(lambda: supervisors)
        groups = [tree / facts["node"] for tree in cgroups.find_trees(lab.spec.id)]
        workloads = {child for group in groups for child in lookup.list_processes(group) if _can_end(child)}
        signals.send(workloads, signal.SIGTERM)
        deadline = time.monotonic() + float(active.fault.options.get("grace", 10))
        while time.monotonic() < deadline and any(_can_end(child) for child in workloads):
            time.sleep(0.05)
        _kill_node(facts)

    def end(self, lab: Lab, active: ActiveFault) -> None:
        _kill_node(dict(active.facts))  # a shutdown that was cut short: what is left of the node stands still
        _restart_node(lab, active)


def stop(
    scope: TargetScope,
    target: TargetName,
    *,
    grace: Annotated[float, Option("How long its pods have to end.", is_duration=True, show_default=True)] = 10,
) -> Fault:
    """Shut a node down in good order. It is started again when the fault is cleared."""
    node = expect_target(target, scope.namespace, "stop", "node")
    return Fault("stop-node", scope.cluster, (str(node),), {"grace": check_at_least(0, grace, "--grace")})


STOP = FaultVerb(
    stop,
    kinds={"stop-node": StopNode},
    draws=(Draw(("node",), lambda scope, target, chance: stop(scope, target, grace=5)),),
)


class LoseNode(Kind):
    """A node that is lost with its volumes, as when a machine burns. A new one of the same name comes in its place."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        _kill_node(dict(active.facts))
        # No disk is made twice: a kubelet that mounts one of these volumes finds none. The files go first, so
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
    """Release the devices of lost disks; the links to them go last."""
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
    """A node that is paused as a virtual machine by its host: it keeps its memory, and its connections hang."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_node(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        signals.freeze(lambda: _node_processes(dict(active.facts)))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        signals.send(_node_processes(dict(active.facts)), signal.SIGCONT)


def _is_supervisor(child: psutil.Process) -> bool:
    """Return whether this is the node's first process or its kubelet, which would start again what ends."""
    try:
        return child.name() == "kubelet" or "node_init.py" in " ".join(child.cmdline())
    except psutil.Error:
        return False


def _can_end(child: psutil.Process) -> bool:
    """Return whether a process runs that can end by itself: the one that holds a pod's network never does."""
    try:
        return child.is_running() and child.status() != psutil.STATUS_ZOMBIE and child.name() != lookup.PAUSE
    except psutil.Error:
        return False
