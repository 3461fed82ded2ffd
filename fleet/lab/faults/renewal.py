"""Faults that outlive a node: it comes back without what they had put into its namespaces, and gets it again.

A node comes back when the fault that ended it is cleared, or by `lab up`, which may be interrupted before it gets here.
So each fault looks at what is missing, and the next `up` makes up for the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fleet.lab.faults import records
from fleet.lab.faults.inject import sweep
from fleet.lab.faults.kinds import kind

if TYPE_CHECKING:
    from fleet.lab.lab import Lab
    from fleet.lab.node import Node


def renew(lab: Lab, nodes: Iterable[Node]) -> None:
    """Give nodes what they miss of the faults that there are. The caller holds the lock of the faults."""
    for active in records.read(lab.directory):
        for node in nodes:
            if node.cluster.name == active.fault.cluster:
                kind(active.fault.kind).renew(lab, active, node.name)


def renew_all(lab: Lab) -> None:
    """After `up`, which may have started nodes. Its lock is not held any more: who clears faults waits for that one."""
    sweep(lab)  # those that are over shall not come back
    if not records.read(lab.directory):
        return
    with records.locked(lab.directory):
        renew(lab, [node for cluster in lab.spec.clusters for node in lab.nodes(cluster)])
