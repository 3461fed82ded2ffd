"""Faults of what runs: the processes of a pod, a node, a program of the control plane. Each has kinds of its own."""

from __future__ import annotations

from typing import Annotated

from fleet.errors import ConfigurationError
from fleet.lab.faults.fault import Fault, Target, expect_target
from fleet.lab.faults.kinds.control_plane import FreezeProgram, KillProgram
from fleet.lab.faults.kinds.nodes import FreezeNode, KillNode
from fleet.lab.faults.kinds.pods import FreezePod, KillPod
from fleet.lab.faults.verb import Draw, FaultVerb, Option, TargetName, TargetScope

Container = Annotated[str, Option("Only this container of the pod. [default: all]", flags=("-c", "--container"))]
ProcessName = Annotated[str, Option("Only processes of this name. [default: all]", metavar="NAME")]


def kill(
    scope: TargetScope,
    target: TargetName,
    *,
    container: Container = "",
    process: ProcessName = "",
) -> Fault:
    """Kill a pod's processes, a node or a program, as by kill -9 or a loss of power.

    A pod is started again by its node. A node or a program is started again when the fault is cleared.
    """
    thing = expect_target(target, scope.namespace, "kill", "pod", "node", "program")
    options = {"container": container, "process": process}
    return Fault(f"kill-{thing.thing}", scope.cluster, (str(thing),), _pod_options(thing, options))


def freeze(
    scope: TargetScope,
    target: TargetName,
    *,
    container: Container = "",
    process: ProcessName = "",
) -> Fault:
    """Let a pod's processes, a node or a program stand still: it holds what it has and answers nothing."""
    thing = expect_target(target, scope.namespace, "freeze", "pod", "node", "program")
    options = {"container": container, "process": process}
    return Fault(f"freeze-{thing.thing}", scope.cluster, (str(thing),), _pod_options(thing, options))


def _pod_options(target: Target, options: dict[str, str]) -> dict[str, str]:
    flags = [f"--{name}" for name, value in options.items() if value]
    if flags and target.thing != "pod":
        raise ConfigurationError(f"{flags[0]} is for pods, and {target} is none", field=flags[0])
    return options if target.thing == "pod" else {}


KILL = FaultVerb(
    kill,
    kinds={"kill-pod": KillPod, "kill-node": KillNode, "kill-program": KillProgram},
    draws=(
        Draw(("pod",), lambda scope, target, chance: kill(scope, target)),
        Draw(("node", "program"), lambda scope, target, chance: kill(scope, target)),
    ),
)
FREEZE = FaultVerb(
    freeze,
    kinds={"freeze-pod": FreezePod, "freeze-node": FreezeNode, "freeze-program": FreezeProgram},
    draws=(Draw(("pod", "node", "program"), lambda scope, target, chance: freeze(scope, target)),),
)
