"""Real Kubernetes clusters on one machine: etcd, API server, controllers, scheduler, and nodes real or simulated.

A lab is a set of clusters below one directory. Everything it makes on the machine (processes, namespaces, bridges,
cgroups, mounts) can be found again from the lab's name alone, so `down` needs no memory of what `up` did.
"""

from fleet.lab.lab import Lab
from fleet.lab.spec import ClusterSpec, LabSpec

__all__ = ["ClusterSpec", "Lab", "LabSpec"]
