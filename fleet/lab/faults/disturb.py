"""Packets that come late, not at all, or in another order.

The kernels of many machines (small virtual ones, for instance) come without `netem`, so packets go through a queue into
a program of ours (`packet_queue.py`), which lets them go when their time has come. If it dies, they pass untouched.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError, ResourceError
from fleet.lab.faults import networks, packet_queue, programs, records
from fleet.lab.faults.fault import Active, Fault
from fleet.lab.faults.kind import Facts, Kind
from fleet.lab.faults.partition import resolve, rules_of
from fleet.lab.process import tail

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

QUEUE = "NFQUEUE --queue-num NUMBER --queue-bypass"


class Disturb(Kind):
    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        facts = resolve(lab, fault, QUEUE, once=True)
        _refuse_a_second(lab, fault.cluster, set(facts["places"]))
        return facts

    def begin(self, lab: Lab, active: Active) -> None:
        for target in active.facts["places"]:
            self._begin_at(lab, active, target)

    def _begin_at(self, lab: Lab, active: Active, target: str) -> None:
        holder = networks.holder(lab, active, target)
        if not holder:
            return
        number, options = str(active.id % 65536), active.fault.options
        settings = [f"{name}={options[name]}" for name in ("delay", "jitter", "loss", "reorder", "hold", "seed")]
        script = Path(packet_queue.__file__)
        command = networks.enter(holder, sys.executable, "-I", "-S", str(script), number, *settings)
        name = target.replace("/", "-")
        started = programs.start(lab, active, name, command)
        log = records.directory(lab.directory) / f"{active.id}-{name}.log"
        deadline = time.monotonic() + 10
        while packet_queue.READY not in tail(log):
            if started.poll() is not None or time.monotonic() > deadline:
                raise ResourceError(
                    f"packets of {target} cannot be queued: {tail(log)}",
                    hint="the kernel needs nfnetlink_queue and the NFQUEUE target",
                )
            time.sleep(0.01)
        networks.give(holder, active.id, rules_of(active, target).with_word("NUMBER", number), first=False)

    def end(self, lab: Lab, active: Active) -> None:
        for target in active.facts["places"]:
            if holder := networks.holder(lab, active, target):
                networks.take(holder, active.id)
        programs.stop(lab, active)

    def renew(self, lab: Lab, active: Active, node: str) -> None:
        if networks.lacks(lab, active, f"node/{node}"):
            self._begin_at(lab, active, f"node/{node}")


def _refuse_a_second(lab: Lab, cluster: str, places: set[str]) -> None:
    """A packet that one queue has let go does not see another."""
    for active in records.read(lab.directory):
        shared = places & set(active.facts.get("places", ()))
        if active.fault.kind == "disturb" and active.fault.cluster == cluster and shared:
            raise ConfigurationError(
                f"packets of {min(shared)} are disturbed already, by fault {active.id}",
                hint=f"`fleet lab fault clear {active.id}` first, or say all that shall happen to them in one",
            )
