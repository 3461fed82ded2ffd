"""No packet goes between two sides, or between one side and everybody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.lab.faults import networks, packets
from fleet.lab.faults.fault import Active, Fault
from fleet.lab.faults.kind import Facts, Kind
from fleet.lab.faults.packets import Chains

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def resolve(lab: Lab, fault: Fault, action: str, *, once: bool) -> Facts:
    """Where rules are to be, and which: facts that `disturb` has too."""
    side, other = networks.sides(lab, fault)
    rules = packets.chains(side, other, action, one_way=bool(fault.options["one-way"]), once=once)
    holders = {member.target: member.holder for member in (*side, *other) if member.holder}
    return {
        "places": {
            target: {"holder": holders[target], "outgoing": found.outgoing, "incoming": found.incoming}
            for target, found in rules.items()
        }
    }


def rules_of(active: Active, target: str) -> Chains:
    place = active.facts["places"][target]
    return Chains(tuple(place["outgoing"]), tuple(place["incoming"]))


class Partition(Kind):
    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return resolve(lab, fault, "DROP", once=False)

    def begin(self, lab: Lab, active: Active) -> None:
        for target in active.facts["places"]:
            self._give(lab, active, target)

    def _give(self, lab: Lab, active: Active, target: str) -> None:
        if holder := networks.holder(lab, active, target):
            networks.give(holder, active.id, rules_of(active, target), first=True)

    def end(self, lab: Lab, active: Active) -> None:
        for target in active.facts["places"]:
            if holder := networks.holder(lab, active, target):
                networks.take(holder, active.id)

    def renew(self, lab: Lab, active: Active, node: str) -> None:
        if networks.lacks(lab, active, f"node/{node}"):
            self._give(lab, active, f"node/{node}")
