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
from fleet.lab.faults.fault import Active, Facts, Fault, Kind, parse
from fleet.lab.faults.kinds import signals

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def _resolve(lab: Lab, fault: Fault) -> Facts:
    target = parse(fault.targets[0])
    pod = lookup.pod(lab, fault.cluster, target.namespace, target.name)
    groups = lookup.containers(pod, fault.options.get("container", ""))
    facts = {"groups": [str(group) for group in groups.values()], "process": fault.options.get("process", "")}
    chosen = _chosen(facts)
    if not chosen:
        names = sorted({one.name() for group in groups.values() for one in lookup.members(group)})
        raise NotFoundError(
            f"pod {target.name!r} has no process {facts['process']!r}", hint=f"its processes: {', '.join(names)}"
        )
    return {**facts, "processes": signals.identities(chosen)}


def _chosen(facts: Facts) -> list[psutil.Process]:
    found = [one for group in facts["groups"] for one in lookup.members(Path(group))]
    return [one for one in found if facts["process"] in ("", _name(one))]


def _name(one: psutil.Process) -> str:
    try:
        return one.name()
    except psutil.Error:
        return ""


class KillPod(Kind):
    """What comes after is the kubelet's matter, as when a program crashes."""

    lasts: ClassVar[bool] = False

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve(lab, fault)

    def begin(self, lab: Lab, active: Active) -> None:
        signals.send(signals.known_again(active.facts["processes"]), signal.SIGKILL)


class FreezePod(Kind):
    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve(lab, fault)

    def begin(self, lab: Lab, active: Active) -> None:
        signals.freeze(lambda: _chosen(dict(active.facts)))

    def end(self, lab: Lab, active: Active) -> None:
        signals.send(signals.known_again(active.facts["processes"]), signal.SIGCONT)
        signals.send(_chosen(dict(active.facts)), signal.SIGCONT)  # those that were started while it began
