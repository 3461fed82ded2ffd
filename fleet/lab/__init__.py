"""Real Kubernetes clusters on one machine: etcd, API server, controllers, scheduler, and nodes real or simulated.

A lab is a set of clusters below one directory. Everything it makes on the machine (processes, namespaces, bridges,
cgroups, mounts) can be found again from the lab's name alone, so `down` needs no memory of what `up` did.

Public names are imported when they are used: the command line lists the faults of a lab without loading labs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.lab.lab import Lab
    from fleet.lab.spec import ClusterSpec, LabSpec

_HOME = {"Lab": "fleet.lab.lab", "ClusterSpec": "fleet.lab.spec", "LabSpec": "fleet.lab.spec"}

__all__ = ["ClusterSpec", "Lab", "LabSpec"]


def __getattr__(name: str) -> object:
    """Return a public name of the package, and load its module first; raise AttributeError for any other name."""
    if name not in _HOME:
        raise AttributeError(f"module 'fleet.lab' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
