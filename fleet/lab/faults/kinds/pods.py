"""Faults of a pod's processes. They are found from the machine, in the pod's control groups, and signalled from there.

Frozen processes are stopped by a signal and not by a freezer: a kubelet can still kill them, as it can those that hang.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import psutil

from fleet.errors import NotFoundError
from fleet.lab.faults import lookup
from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind, parse_target
from fleet.lab.faults.kinds import signals

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def _resolve_pod(lab: Lab, fault: Fault) -> Facts:
    target = parse_target(fault.targets[0])
    pod = lookup.find_pod(lab, fault.cluster, target.namespace, target.name)
    groups = lookup.container_groups(pod, fault.options.get("container", ""))
    facts = {"groups": [str(group) for group in groups.values()], "process": fault.options.get("process", "")}
    processes = _chosen_processes(facts)
    if not processes:
        names = sorted({child.name() for group in groups.values() for child in lookup.list_processes(group)})
        raise NotFoundError(
            f"pod {target.name!r} has no process {facts['process']!r}", hint=f"its processes: {', '.join(names)}"
        )
    return {**facts, "processes": signals.identify_processes(processes)}


def _chosen_processes(facts: Facts) -> list[psutil.Process]:
    """Return the processes that a fault happens to, as they are now."""
    processes = [child for group in facts["groups"] for child in lookup.list_processes(Path(group))]
    return [child for child in processes if facts["process"] in ("", _process_name(child))]


def _process_name(child: psutil.Process) -> str:
    try:
        return child.name()
    except psutil.Error:
        return ""


class KillPod(Kind):
    """Killed processes of a pod. The kubelet acts on it as when a program crashes."""

    lasts: ClassVar[bool] = False

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_pod(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        signals.send(signals.find_processes(active.facts["processes"]), signal.SIGKILL)


class FreezePod(Kind):
    """Processes of a pod that stand still."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_pod(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        signals.freeze(lambda: _chosen_processes(dict(active.facts)))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        signals.send(signals.find_processes(active.facts["processes"]), signal.SIGCONT)
        signals.send(_chosen_processes(dict(active.facts)), signal.SIGCONT)  # those that were started while it began
