"""The kinds of faults by name. A new one is a module and a line here; it is imported when it is used."""

from __future__ import annotations

import importlib

from fleet.errors import ConfigurationError
from fleet.lab.faults.kind import Kind

KINDS = {
    "kill-pod": "pods:KillPod",
    "freeze-pod": "pods:FreezePod",
    "kill-node": "nodes:KillNode",
    "stop-node": "nodes:StopNode",
    "freeze-node": "nodes:FreezeNode",
    "lose-node": "nodes:LoseNode",
    "kill-program": "control:KillProgram",
    "freeze-program": "control:FreezeProgram",
    "partition": "partition:Partition",
    "disturb": "disturb:Disturb",
    "fill-volume": "disks:FillVolume",
    "corrupt-volume": "disks:CorruptVolume",
    "lose-volume": "disks:LoseVolume",
    "fail-api": "api.kinds:Fail",
    "slow-api": "api.kinds:Slow",
    "forget-api": "api.kinds:Forget",
    "skew-leases": "api.kinds:Skew",
}


def kind(name: str) -> Kind:
    if name not in KINDS:
        raise ConfigurationError(f"there is no fault {name!r}", hint=f"there are: {', '.join(KINDS)}")
    module, _, attribute = KINDS[name].partition(":")
    found: type[Kind] = getattr(importlib.import_module(f"fleet.lab.faults.{module}"), attribute)
    return found()
